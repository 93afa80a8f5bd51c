"""Ids, keys and constants, against the facts that every language is held to."""

import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import echomq
import pytest

ROOT = Path(__file__).resolve().parents[3]
VECTORS = json.loads((ROOT / "conformance" / "vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fact", VECTORS["ids"], ids=lambda fact: fact["evt"])
def test_ids_of_the_vectors(fact):
    id = echomq.Id(fact["evt"])
    assert (id.namespace, id.snowflake) == ("EVT", int(fact["snowflake"]))
    assert (id.unix_ms, id.node, id.sequence) == (fact["unix_ms"], fact["node"], fact["seq"])
    assert id.entry_id == fact["entry_id"]
    assert id.instant == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=fact["unix_ms"])
    assert id.instant.utcoffset() == timedelta(0)
    assert echomq.Id.encode("EVT", int(fact["snowflake"])) == id == echomq.Id.from_entry_id(fact["entry_id"])
    assert str(id) == fact["evt"]
    assert repr(id) == f"Id('{fact['evt']}')"


@pytest.mark.parametrize("fact", VECTORS["branded"], ids=lambda fact: fact["id"])
def test_other_namespaces(fact):
    id = echomq.Id(fact["id"])
    assert (id.namespace, id.snowflake) == (fact["ns"], int(fact["snowflake"]))
    assert str(echomq.Id.encode(fact["ns"], int(fact["snowflake"]))) == fact["id"]
    assert (id.entry_id is None) == (fact["ns"] != "EVT")


def test_ids_compare_as_their_texts_do():
    texts = sorted(fact["evt"] for fact in VECTORS["ids"])
    assert [str(id) for id in sorted(map(echomq.Id, reversed(texts)))] == texts
    assert len({echomq.Id(texts[0]), echomq.Id(texts[0]), echomq.Id(texts[1])}) == 2
    assert echomq.Id(texts[0]) != texts[0]


@pytest.mark.parametrize(
    "text", ["", "EVT", "EVT0NgWEfAER9-", "evt0NgWEfAER90", "EVTzzzzzzzzzzz", "EVT\udcff", "\ud800"]
)
def test_what_is_no_id(text):
    with pytest.raises((echomq.MalformedIdError, echomq.InvalidOptionError)):
        echomq.Id(text)


@pytest.mark.parametrize("number", [-1, 2**63, 2**64, 10**30, 1.5, "1"])
def test_what_is_no_snowflake(number):
    with pytest.raises(echomq.MalformedIdError, match="range"):
        echomq.Id.encode("EVT", number)


def test_what_has_no_id():
    for entry_id in ("1-1", "x", "", "1704067200000-4194304"):
        with pytest.raises(echomq.MalformedIdError):
            echomq.Id.from_entry_id(entry_id)


def test_a_64_bit_id_stays_text(stream):
    id = str(echomq.Id.encode("EVT", 653247040368672769))
    assert stream.append_id(id, {}) == id
    [record] = stream.read(id, id)
    assert json.loads(json.dumps(record.id)) == id
    assert echomq.Id(id).snowflake == 653247040368672769


def test_keys():
    keys = echomq.Keyspace("orders")
    assert (keys.queue, keys.stream("events"), keys.key("seq")) == (
        "orders",
        "emq:{orders}:stream:events",
        "emq:{orders}:seq",
    )
    assert echomq.slot("emq:{orders}:stream:events") == 105
    assert keys == echomq.Keyspace("orders")
    assert hash(keys) == hash(echomq.Keyspace("orders"))
    assert repr(keys) == "Keyspace('orders')"
    for name in ("", "a:b", "{a}", "emq", "a" * 129, "ü", "\udcff"):
        with pytest.raises(echomq.InvalidNameError):
            echomq.Keyspace(name)
    with pytest.raises(echomq.InvalidNameError):
        keys.stream("a:b")
    with pytest.raises(echomq.InvalidNameError):
        keys.key("a b")


def test_names_are_checked_before_anything_is_sent(client):
    with pytest.raises(echomq.InvalidNameError):
        client.stream("a:b", "events")
    with pytest.raises(echomq.InvalidNameError):
        client.stream("orders", "\udcff")


def test_versions_and_constants():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert echomq.__version__ == echomq.CORE_VERSION == workspace["package"]["version"]
    assert ("{emq}:version", VECTORS["epoch_ms"], 1022) == (echomq.VERSION_KEY, echomq.EPOCH_MS, echomq.MAX_NODE)


def test_all_that_is_public_is_named():
    public = {name for name in vars(echomq) if not name.startswith("_") and name != "errors"}
    assert public | {"__version__"} == set(echomq.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", echomq.__version__)
