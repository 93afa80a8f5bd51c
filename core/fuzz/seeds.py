"""Writes what the vectors hold as seeds for the fuzz targets: python3 core/fuzz/seeds.py FOLDER"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bulk(part):
    return b"$%d\r\n%s\r\n" % (len(part), part)


def array(items):
    return b"*%d\r\n%s" % (len(items), b"".join(items))


def seeds(vectors):
    """Yields target and bytes."""
    for fact in vectors["ids"]:
        yield "ids", fact["evt"].encode()
        yield "ids", fact["entry_id"].encode()
    for fact in vectors["branded"] + vectors["malformed"]:
        yield "ids", fact["id"].encode()
    for name in vectors["names"]["valid"] + vectors["names"]["invalid"]:
        yield "names", name.encode()
    for fact in vectors["keys"]:
        yield "names", fact["key"].encode()
        yield "names", fact.get("type", "").encode()
    for url in ["redis://h", "valkeys://u:p%40s@[::1]:7/3?timeout=9", "unix:///run/s?db=2&user=u", "h:7/1?node_id=5"]:
        yield "options", url.encode()
    yield "options", b"echomq:2.1.0"
    for fact in vectors["records"]:
        entry = next((id["entry_id"] for id in vectors["ids"] if id["evt"] == fact["evt"]), "1735689600000-0")
        fields = [bytes.fromhex(part) for pair in fact["fields_hex"] for part in pair]
        parts = [bulk(part) for part in [b"id", fact["evt"].encode(), *fields]]
        yield "replies", array([array([bulk(entry.encode()), array(parts)])])
        for part in fields:
            yield "fields", part
    for reply in [b"+OK\r\n", b"-ERR no\r\n", b":7\r\n", b"$-1\r\n", b"_\r\n", b"%1\r\n$1\r\na\r\n:1\r\n", b"~1\r\n:1\r\n",
                  b"|1\r\n+a\r\n:1\r\n:2\r\n", b">2\r\n+message\r\n:1\r\n", b"=5\r\ntxt:a\r\n", b"!5\r\nERR x\r\n", b",1.5\r\n",
                  b"#t\r\n", b"(12345678901234567890\r\n"]:
        yield "replies", reply
    for fact in vectors["events"]:
        yield "events", fact["payload"].encode()
    for payload in [b"", b"hello", b"[1]", b'{"event":7}', b' {"progress" : "5\\/10", "event":"progress"}']:
        yield "events", payload
    for field in [b"%", b"%25", b"a%20b", b"%c3%A9", b"|", b"%2%35"]:
        yield "fields", field


def main(folder):
    vectors = json.loads((ROOT / "conformance/vectors.json").read_text())
    for number, (target, seed) in enumerate(seeds(vectors)):
        place = pathlib.Path(folder) / target
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03}").write_bytes(seed)


main(sys.argv[1])
