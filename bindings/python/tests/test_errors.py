"""Errors: one class for each code of the core, with all that the core says."""

import copy
import pickle

import echomq
import pytest
from echomq import _echomq, errors
from server import free_port


def test_every_code_has_a_class_and_no_class_is_left_over():
    assert list(errors.BY_CODE) == _echomq.CODES
    for code, made in errors.BY_CODE.items():
        assert made.__name__ == "".join(word.capitalize() for word in code.split("_")) + "Error"
        assert getattr(echomq, made.__name__) is made
        assert (made.code, made.__module__, made.__bases__) == (code, "echomq", (echomq.EchoMQError,))
    exported = {name for name in echomq.__all__ if name.endswith("Error")}
    assert exported == {made.__name__ for made in errors.BY_CODE.values()} | {"EchoMQError"}


def test_an_error_says_what_the_core_says(stream, key):
    top = stream.append({"n": "1"})
    with pytest.raises(echomq.NonmonotonicError) as caught:
        stream.append_id("EVT09nSpDrfawy", {"n": "2"})
    error = caught.value
    assert isinstance(error, echomq.EchoMQError)
    assert (error.code, error.id, error.subject) == ("nonmonotonic", "EVT09nSpDrfawy", key)
    assert error.top == echomq.Id(top).entry_id
    assert str(error) == f"{error.message} ({key})"


@pytest.mark.parametrize("made", list(errors.BY_CODE.values()))
def test_errors_can_be_pickled_and_copied(made):
    for error in (made("why"), made("why", "key"), made("why", None, "id"), made("why", "key", "id", "top")):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is made
            assert vars(again) == vars(error)
            assert (str(again), repr(again)) == (str(error), repr(error))


def test_the_server_s_own_words(client, plain, key, stream):
    plain.set(key, "no stream")
    for call in (
        lambda: stream.append({}),
        lambda: stream.append_batch([{}], atomic=True),
        lambda: stream.read().all(),
        lambda: stream.trim(max_len=1),
    ):
        with pytest.raises(echomq.WrongTypeError) as caught:
            call()
        assert caught.value.subject == key
    with pytest.raises(echomq.ServerError, match="unknown command 'NONSENSE'"):
        client.command("NONSENSE")


def test_options_are_refused_by_name(url):
    for name, value in (
        ("timeout", 0),
        ("timeout", -1),
        ("node_id", 1023),
        ("protocol", "4"),
        ("timeuot", 5),
        ("database", "x"),
    ):
        with pytest.raises(echomq.InvalidOptionError) as caught:
            echomq.Client(url, **{name: value})
        assert caught.value.subject == name
    for value in (1.5, b"1", True, object()):
        with pytest.raises(TypeError, match="the option timeout"):
            echomq.Client(url, timeout=value)
    with pytest.raises(echomq.InvalidOptionError):
        echomq.Client("http://localhost")
    with pytest.raises(echomq.InvalidOptionError):
        echomq.Client(url, password="\udcff")


def test_no_secret_is_told(url):
    texts = []
    secret = "s3cr3t"
    for make in (
        lambda: echomq.Client(url.replace("://", f"://user:{secret}@")),
        lambda: echomq.Client(f"nonsense://user:{secret}@host"),
        lambda: echomq.Client(url, username="user", password=secret),
        lambda: echomq.Client(f"redis://user:{secret}@host:99999"),
    ):
        with pytest.raises(echomq.EchoMQError) as caught:
            make()
        texts += [str(caught.value), repr(caught.value), repr(vars(caught.value))]
    texts.append(repr(echomq.aio.Client(f"redis://user:{secret}@host")))
    assert not [text for text in texts if secret in text]


def test_without_a_node_id_one_is_leased(url, name, monkeypatch):
    monkeypatch.delenv("ECHOMQ_NODE_ID", raising=False)
    with echomq.Client(url) as client, echomq.Client(url) as other:
        appended = client.stream("tests", name).append({})
        assert echomq.Id(appended).node == echomq.Id(client.mint()).node != echomq.Id(other.mint()).node


def test_the_refusals_of_the_record(stream, client, url, name):
    with pytest.raises(echomq.ReservedFieldError):
        stream.append({"id": "mine"})
    with pytest.raises(echomq.TooLargeError):
        stream.append({"v": b"x" * (1 << 20)})
    with pytest.raises(echomq.MalformedIdError):
        stream.append_id("EVT", {})
    with pytest.raises(echomq.KindError):
        stream.append_id("JOB09nSpDrfawy", {})
    with echomq.Client(url, node_id=9, clock=3_800_000_000_000) as ahead, pytest.raises(echomq.ClockAheadError):
        ahead.stream("tests", name).append({})


def test_a_deployment_of_another_version_is_refused(own_server):
    with echomq.Client(own_server.url, claim_version="echomq:2.1.0") as client:
        assert client.command("GET", echomq.VERSION_KEY) == b"echomq:2.1.0"
        client.command("SET", echomq.VERSION_KEY, "echomq:4.0.0")
    with pytest.raises(echomq.VersionFenceError, match=r"echomq:4\.0\.0"):
        echomq.Client(own_server.url)


def test_an_error_says_whether_asking_again_can_help_and_what_caused_it():
    retryable = {name for name, made in errors.BY_CODE.items() if made.retryable}
    assert retryable == {"disconnected", "timeout", "overloaded", "out_of_memory", "node_lease_lost", "unavailable"}
    assert not echomq.EchoMQError.retryable
    with (
        pytest.raises(echomq.NodeLeaseLostError) as caught,
        echomq.Client(f"redis://127.0.0.1:{free_port()}", connect="lazy", timeout=50) as client,
    ):
        client.mint()
    assert isinstance(caught.value.__cause__, echomq.DisconnectedError)
