"""Appending, seen through a plain client."""

import collections
import itertools
import threading

import echomq
import pytest


def entries(plain, key):
    """Entry id and the flat list of names and values, as they stand on the server."""
    return [(entry_id, fields) for entry_id, fields in plain.execute_command("XRANGE", key, "-", "+")]


def test_the_record_is_as_the_protocol_says(stream, plain, key):
    id = stream.append([("kind", "guessed"), ("kind", "again"), ("", ""), ("player", "PLR0NgWEfAEJfs")])
    [(entry_id, fields)] = entries(plain, key)
    assert fields == [
        b"id",
        id.encode(),
        b"kind",
        b"guessed",
        b"kind",
        b"again",
        b"",
        b"",
        b"player",
        b"PLR0NgWEfAEJfs",
    ]
    assert entry_id.decode() == echomq.Id(id).entry_id
    assert stream.key == key


@pytest.mark.parametrize(
    "fields",
    [
        {"b": "1", "a": "2"},
        collections.OrderedDict(b="1", a="2"),
        collections.ChainMap({"b": "1", "a": "2"}),
        [("b", "1"), ("a", "2")],
        (("b", b"1"), [b"a", "2"]),
        iter([(b"b", bytearray(b"1")), (memoryview(b"a"), memoryview(b"x2x")[1:2])]),
        (pair for pair in [("b", "1"), ("a", "2")]),
        {b"b": b"1", "a": b"2"},
    ],
)
def test_fields_in_every_form_keep_their_order(stream, plain, key, fields):
    id = stream.append(fields)
    assert entries(plain, key)[-1][1] == [b"id", id.encode(), b"b", b"1", b"a", b"2"]


def test_a_mapping_of_another_class_is_asked_for_its_order(stream):
    moved = collections.OrderedDict(a="1", b="2")
    moved.move_to_end("a")
    stream.append(moved)
    assert next(stream.read_last(1)).fields == [("b", "2"), ("a", "1")]


def test_no_byte_is_lost(stream, plain, key):
    everything = bytes(range(256)) + b"\xc3\x28"
    text = everything.decode("utf-8", "surrogateescape")
    stream.append([(everything, everything), (text, text), ("ключ", "значение 🎲"), ("\x00", "\r\n")])
    [(_, fields)] = entries(plain, key)
    assert fields[2:] == [everything] * 4 + ["ключ".encode(), "значение 🎲".encode(), b"\x00", b"\r\n"]
    record = next(stream.read())
    assert record.raw[:2] == [(everything, everything)] * 2
    assert record.fields[:3] == [(text, text), (text, text), ("ключ", "значение 🎲")]
    assert record.get("ключ") == record.get("ключ".encode()) == "значение 🎲"


def test_no_fields_at_all(stream, plain, key):
    id = stream.append({})
    assert entries(plain, key)[0][1] == [b"id", id.encode()]
    assert next(stream.read()).fields == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (5, "fields are a mapping or pairs of name and value, not int"),
        (None, "fields are a mapping or pairs of name and value, not NoneType"),
        ({"n": 1}, "the name or value of a field is str or bytes, not int"),
        ({"n": None}, "the name or value of a field is str or bytes, not NoneType"),
        ({1: "n"}, "the name or value of a field is str or bytes, not int"),
        ([("n", 1.5)], "the name or value of a field is str or bytes, not float"),
        (["n"], "a field is a pair of a name and a value"),
        ([("n",)], "a field is a pair of a name and a value"),
        ([("n", "v", "w")], "a field is a pair of a name and a value"),
        ("text", "a field is a pair of a name and a value"),
    ],
)
def test_what_is_no_field_is_a_type_error(stream, plain, key, fields, message):
    with pytest.raises(TypeError, match=message):
        stream.append(fields)
    assert plain.exists(key) == 0


def test_an_exception_of_the_callers_iterator_comes_through(stream, plain, key):
    def fields():
        yield "n", "1"
        raise LookupError("of the caller")

    with pytest.raises(LookupError, match="of the caller"):
        stream.append(fields())
    assert plain.exists(key) == 0


def test_a_surrogate_that_stands_for_no_byte_is_refused(stream):
    with pytest.raises(echomq.InvalidOptionError):
        stream.append({"n": "\ud800"})


def test_append_id_repeats_history(client, name, plain, key):
    events = client.stream("tests", name)
    assert events.append_id("EVT09nSpDrfawy", {"n": "1"}) == "EVT09nSpDrfawy"
    assert events.append_id("EVT09nSpDrfawz", [("n", "2")]) == "EVT09nSpDrfawz"
    assert [entry_id for entry_id, _ in entries(plain, key)] == [b"1735689600001-12288", b"1735689600001-12289"]


def test_a_batch_has_one_result_for_each_record(stream, plain, key):
    results = stream.append_batch([{"n": "1"}, {"id": "x"}, [("n", "2")], {"n": "3" * 2_000_000}])
    assert [getattr(result, "code", "ok") for result in results] == ["ok", "reserved_field", "ok", "too_large"]
    assert isinstance(results[1], echomq.ReservedFieldError)
    assert [fields[1].decode() for _, fields in entries(plain, key)] == [results[0], results[2]]
    assert stream.append_batch([]) == []


def test_an_atomic_batch_is_written_whole_or_not_at_all(stream, plain, key):
    ids = stream.append_batch(({"n": str(n)} for n in range(2_000)), atomic=True)
    assert [fields[1].decode() for _, fields in entries(plain, key)] == ids == sorted(set(ids))
    with pytest.raises(echomq.ReservedFieldError):
        stream.append_batch([{"n": "1"}, {"id": "x"}], atomic=True)
    assert plain.xlen(key) == 2_000
    assert stream.append_batch([], atomic=True) == []


def test_a_record_that_is_none_spoils_no_batch_silently(stream, plain, key):
    with pytest.raises(TypeError):
        stream.append_batch([{"n": "1"}, {"n": 2}])
    assert plain.exists(key) == 0


def test_threads_share_a_client_and_each_sees_its_ids_increase(stream, plain, key):
    found = [[] for _ in range(8)]

    def work(ids):
        for n in range(200):
            ids.append(stream.append({"n": str(n)}))

    threads = [threading.Thread(target=work, args=(ids,)) for ids in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in found)
    assert sorted(itertools.chain(*found)) == [fields[1].decode() for _, fields in entries(plain, key)]


def test_ten_clients_of_one_node_repeat_no_id(url):
    clients = [echomq.Client(url, node_id=11, clock=1_735_689_600_000) for _ in range(10)]
    ids = [client.mint() for client in clients]
    assert len(set(ids)) == 10
    assert {echomq.Id(id).node for id in ids} == {11}


def test_minting_is_safe_among_threads(client):
    found = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=lambda ids=ids: ids.extend(client.mint() for _ in range(5_000))) for ids in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in found)
    assert len(set(itertools.chain(*found))) == 40_000


CHANGES_THE_CONNECTION = ("SUBSCRIBE c", "MONITOR", "SELECT 1", "MULTI", "CLIENT REPLY OFF", "HELLO 2", "BLPOP k 0")


@pytest.mark.parametrize("text", CHANGES_THE_CONNECTION)
def test_a_command_that_would_change_the_connection_of_all_is_refused(client, text):
    for call in (lambda: client.command(*text.split()), lambda: client.pipeline([["PING"], text.split()])):
        with pytest.raises(echomq.InvalidOptionError):
            call()
        assert client.command("ECHO", text) == text.encode()


def test_raw_commands(client, plain, name):
    assert client.command("SET", f"{name}", b"\xff\x00") == b"OK"
    assert plain.get(name) == b"\xff\x00"
    assert client.command(b"GET", name) == b"\xff\x00"
    assert client.command("GET", f"{name}-nothing") is None
    assert client.command("STRLEN", name) == 2
    assert client.pipeline([["RPUSH", f"{name}-list", "a", "b"], ["LRANGE", f"{name}-list", "0", "-1"]]) == [
        2,
        [b"a", b"b"],
    ]
    assert client.pipeline([("HSET", f"{name}-hash", "f", "v"), ("HGETALL", f"{name}-hash")]) == [1, {b"f": b"v"}]
    wrong, right = client.pipeline([["LPOP", name], ["GET", name]])
    assert (type(wrong), right) == (echomq.WrongTypeError, b"\xff\x00")
    for call in (client.command, lambda: client.pipeline([]), lambda: client.pipeline([[]])):
        with pytest.raises(echomq.InvalidOptionError):
            call()
    with pytest.raises(TypeError):
        client.command("GET", 1)
