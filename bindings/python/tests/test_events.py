"""Publishing, seen by a plain client that listens."""

import json
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import echomq
import pytest
from hearing import JOB, refusal

VECTORS = json.loads(Path(__file__).parents[3].joinpath("conformance", "vectors.json").read_text(encoding="utf-8"))
LAST = b'{"event":"last","job":"JOB000xY9Wvvcd"}'


@pytest.fixture
def stranger(plain, url):
    """The address of the server with a user who may do everything but use a channel."""
    plain.execute_command("ACL", "SETUSER", "stranger", "on", ">known", "~*", "+@all", "resetchannels")
    yield url.replace("redis://", "redis://stranger:known@")
    plain.execute_command("ACL", "DELUSER", "stranger")


@pytest.mark.parametrize("fact", VECTORS["events"], ids=lambda fact: fact["event"])
def test_every_payload_of_the_vectors(either, ear, fact):
    pairs = [tuple(pair) for pair in fact["extra"]]
    assert either("publish", fact["event"], fact["job"], pairs) == 1
    assert either("publish", fact["event"], fact["job"], dict(pairs)) == 1
    assert ear.heard(2) == [fact["payload"].encode()] * 2


@pytest.mark.parametrize(
    "extra",
    [
        {"b": "1", "a": "2"},
        [("b", "1"), ["a", b"2"]],
        iter([("b", memoryview(b"1")), (b"a", bytearray(b"2"))]),
        MappingProxyType({"b": "1", "a": "2"}),
    ],
    ids=lambda extra: type(extra).__name__,
)
def test_further_members_in_their_order(events, ear, extra):
    events.publish("added", JOB, extra)
    assert ear.heard(1) == [b'{"event":"added","job":"JOB000xY9Wvvcd","b":"1","a":"2"}']


def test_what_cannot_be_published_never_reaches_the_wire(either, ear):
    for arguments, expected in (
        (("", JOB), ("invalid_name", None)),
        (("added", "JOB1"), ("malformed_id", "job")),
        (("added", "job000xY9Wvvcd"), ("malformed_id", "job")),
        (("added", JOB, {"event": "x"}), ("reserved_field", "event")),
        (("added", JOB, {"job": "x"}), ("reserved_field", "job")),
        (("added", JOB, [("a", "1"), ("a", "2")]), ("invalid_option", "a")),
        (("added", JOB, {"a": b"\xff"}), ("invalid_option", "a")),
        (("added\udcff", JOB), ("invalid_option", None)),
    ):
        assert refusal(lambda arguments=arguments: either("publish", *arguments)) == expected
    with pytest.raises(echomq.TooLargeError):
        either("publish", "added", JOB, {"a": "x" * (1 << 20)})
    for arguments, words in (
        (("added", JOB, 5), "members are a mapping or pairs of name and value, not int"),
        (("added", JOB, ["n"]), "a member is a pair of a name and a value"),
        (("added", JOB, {"n": 1}), "the name or value of a member is str or bytes, not int"),
        ((b"added", JOB), "event"),
        (("added", None), "job"),
    ):
        with pytest.raises(TypeError, match=words):
            either("publish", *arguments)
    either("publish", "last", JOB)
    assert ear.heard(1) == [LAST]


@pytest.mark.parametrize(("progress", "text"), [("5/10 ü", "5/10 ü"), (b"50", "50"), (99, "99"), (10**30, str(10**30))])
def test_progress_changes_the_row_and_is_published(either, ear, plain, name, progress, text):
    row = f"emq:{{{name}}}:job:{JOB}"
    plain.hset(row, "state", "active")
    assert either("update_progress", JOB, progress) == 1
    assert plain.execute_command("HGETALL", row) == [b"state", b"active", b"progress", text.encode()]
    [payload] = ear.heard(1)
    assert json.loads(payload) == {"event": "progress", "job": JOB, "progress": text}


def test_progress_that_cannot_be_told_changes_nothing(either, ear, plain, name):
    row = f"emq:{{{name}}}:job:{JOB}"
    assert refusal(lambda: either("update_progress", JOB, "1")) == ("gone", row)
    assert plain.exists(row) == 0
    plain.hset(row, "state", "active")
    for arguments, code in (((JOB, b"\xff"), "invalid_option"), (("x", "1"), "malformed_id")):
        assert refusal(lambda arguments=arguments: either("update_progress", *arguments))[0] == code
    for wrong in (1.5, True, None):
        with pytest.raises(TypeError, match="progress is str or bytes"):
            either("update_progress", JOB, wrong)
    assert plain.execute_command("HGETALL", row) == [b"state", b"active"]
    plain.set(row, "no row", xx=True)
    with pytest.raises(echomq.WrongTypeError):
        either("update_progress", JOB, "1")
    either("publish", "last", JOB)
    assert ear.heard(1) == [LAST]


@pytest.mark.parametrize("method", ["append_and_publish", "append_sequenced_and_publish"])
def test_a_record_and_its_light_signal(either, ear, plain, name, method):
    announced = either(method, "games", {"kind": "won"}, "completed", JOB, {"n": "1"})
    assert isinstance(announced, echomq.Announced)
    assert (announced.published, announced.error) == (1, None)
    [payload] = ear.heard(1)
    head = f'{{"event":"completed","job":"{JOB}","stream":"games","id":"{announced.id}","n":"1"}}'
    assert payload == head.encode()
    [[entry_id, fields]] = plain.execute_command("XRANGE", f"emq:{{{name}}}:stream:games", "-", "+")
    assert entry_id.decode() == echomq.Id(announced.id).entry_id
    assert fields == [b"id", announced.id.encode(), b"kind", b"won"]
    for arguments, code in (
        (("games", {"kind": "won"}, "completed", JOB, {"stream": "x"}), "reserved_field"),
        (("games", {"kind": "won"}, "completed", JOB, {"id": "x"}), "reserved_field"),
        (("games", {"id": "x"}, "completed", JOB), "reserved_field"),
        (("no spaces", {"kind": "won"}, "completed", JOB), "invalid_name"),
        (("games", {"kind": "won"}, "completed", "x"), "malformed_id"),
    ):
        assert refusal(lambda arguments=arguments: either(method, *arguments))[0] == code
    assert plain.xlen(f"emq:{{{name}}}:stream:games") == 1
    either("publish", "last", JOB)
    assert ear.heard(1) == [LAST]


def test_a_missing_channel_rule_is_named_and_the_rest_works(stranger, name, channel):
    with echomq.Client(stranger, node_id=7) as client:
        events = client.events(name)
        for call in (events.listen, lambda: events.publish("added", JOB), lambda: events.watch(JOB)):
            with pytest.raises(echomq.AuthError) as caught:
                call()
            assert caught.value.subject == channel
            assert f"&{channel}" in caught.value.message
        announced = events.append_and_publish("games", {"kind": "won"}, "completed", JOB)
        assert (announced.published, announced.error.code) == (None, "auth")
        [record] = client.stream(name, "games").read()
        assert record.id == announced.id
        decided = events.after_verdict(lambda: "done", "completed", JOB)
        assert (decided.verdict, decided.published, decided.error.code) == ("done", None, "auth")


async def test_a_missing_channel_rule_is_named_in_a_loop(stranger, name, channel):
    async with echomq.aio.Client(stranger, node_id=7) as client:
        events = client.events(name)
        for call in (events.listen, lambda: events.publish("added", JOB), lambda: events.watch(JOB)):
            with pytest.raises(echomq.AuthError, match="&emq:"):
                await call()
        decided = await events.after_verdict(lambda: "done", "completed", JOB)
        assert (decided.verdict, decided.published, decided.error.code) == ("done", None, "auth")


def test_an_event_follows_its_verdict(either, ear):
    assert either("after_verdict", lambda: "done", "completed", JOB, {"n": "1"}) == echomq.Decided("done", 1, None)
    assert either("after_verdict", lambda: None, "failed", JOB) is None
    assert [either("after_verdict", lambda v=v: v, "active", JOB).verdict for v in (0, "", False)] == [0, "", False]

    def fail():
        raise LookupError("no such job")

    with pytest.raises(LookupError, match="no such job"):
        either("after_verdict", fail, "failed", JOB)
    names = [json.loads(payload)["event"] for payload in ear.heard(4)]
    assert names == ["completed", "active", "active", "active"]


def test_what_cannot_be_published_is_refused_before_the_transition(either, ear):
    def transition():
        pytest.fail("it ran")

    for arguments, error in (
        (("completed", "x"), echomq.MalformedIdError),
        (("", JOB), echomq.InvalidNameError),
        (("completed", JOB, {"job": "x"}), echomq.ReservedFieldError),
        (("completed", JOB, 5), TypeError),
    ):
        with pytest.raises(error):
            either("after_verdict", transition, *arguments)
    # The bound is the client's own, and shows when the event is published.
    decided = either("after_verdict", lambda: "done", "completed", JOB, {"a": "x" * (1 << 20)})
    assert (decided.verdict, decided.published, decided.error.code) == ("done", None, "too_large")
    either("publish", "last", JOB)
    assert ear.heard(1) == [LAST]


async def test_a_transition_may_be_awaited(aio_events, ear):
    async def decide(verdict):
        return verdict

    assert (await aio_events.after_verdict(lambda: decide("done"), "completed", JOB)).verdict == "done"
    assert await aio_events.after_verdict(lambda: decide(None), "failed", JOB) is None
    assert ear.heard(1) == [b'{"event":"completed","job":"JOB000xY9Wvvcd"}']


def test_a_coroutine_is_no_verdict_here(events):
    async def decide():
        pytest.fail("nobody awaits it")

    with pytest.raises(TypeError, match="coroutine"):
        events.after_verdict(decide, "completed", JOB)


def test_an_event_whose_answer_is_lost_is_not_sent_again(own_server):
    with echomq.Client(own_server.url, timeout=timedelta(seconds=2)) as client:
        own_server.pause()
        with pytest.raises(echomq.UnknownOutcomeError):
            client.events("q").publish("added", JOB)
        own_server.resume()


async def test_an_event_whose_answer_is_lost_in_a_loop(own_server):
    async with echomq.aio.Client(own_server.url, timeout=timedelta(seconds=2)) as client:
        own_server.pause()
        with pytest.raises(echomq.UnknownOutcomeError):
            await client.events("q").publish("added", JOB)
        own_server.resume()


def test_events_of_a_closed_client(url):
    client = echomq.Client(url)
    events = client.events("q")
    assert (events.channel, repr(events)) == ("emq:{q}:events", "<echomq.Events(emq:{q}:events)>")
    client.close()
    for call in (events.listen, lambda: events.publish("added", JOB), lambda: events.watch(JOB)):
        with pytest.raises(echomq.ClosedError):
            call()
    with pytest.raises(echomq.InvalidNameError):
        client.events("no spaces")
