"""Ids, names, keys and slots, as the law says."""

import re

EPOCH_MS = 1_704_067_200_000
ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LARGEST = 2**63 - 1
MAX_TAIL = 2**22 - 1
MAX_RECORD = 1 << 20
MAX_AHEAD_MS = 60_000
MAX_KEPT_AHEAD_MS = 5
SEQUENCER = 1023


class Refusal(Exception):
    """What the bus refuses, or the server did, with its code."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


def malformed(reason, what):
    return Refusal("malformed_id", f"{what!r} is no id: its {reason} is wrong")


def encode_id(namespace, snowflake):
    if not re.fullmatch(rb"[A-Z]{3}", namespace):
        raise malformed("namespace", namespace)
    if not 0 <= snowflake <= LARGEST:
        raise malformed("range", snowflake)
    digits = bytearray()
    for _ in range(11):
        snowflake, digit = divmod(snowflake, 62)
        digits.append(ALPHABET[digit])
    return (namespace + bytes(reversed(digits))).decode()


def branded(snowflake):
    return encode_id(b"EVT", snowflake)


def decode_id(id):
    if len(id) != 14:
        raise malformed("length", id)
    if not re.fullmatch(rb"[A-Z]{3}", id[:3]):
        raise malformed("namespace", id)
    snowflake = 0
    for letter in id[3:]:
        digit = ALPHABET.find(letter)
        if digit < 0:
            raise malformed("charset", id)
        snowflake = snowflake * 62 + digit
    if snowflake > LARGEST:
        raise malformed("range", id)
    return id[:3].decode(), snowflake


def event(id):
    """The snowflake of an id that a stream admits."""
    namespace, snowflake = decode_id(id)
    if namespace != "EVT":
        raise Refusal("kind", f"a stream admits EVT ids, not {id!r}")
    return snowflake


def entry(snowflake):
    return (snowflake >> 22) + EPOCH_MS, snowflake & MAX_TAIL


def entry_text(snowflake):
    ms, tail = entry(snowflake)
    return b"%d-%d" % (ms, tail)


def id_of_entry(text):
    parts = re.fullmatch(rb"(\d{1,20})-(\d{1,20})", text)
    if not parts:
        raise malformed("form", text)
    ms, tail = int(parts[1]), int(parts[2])
    if tail > MAX_TAIL or not EPOCH_MS <= ms < EPOCH_MS + 2**41:
        raise malformed("range", text)
    return branded((ms - EPOCH_MS) << 22 | tail)


def check_name(what, name):
    reserved = {"queue": name == b"emq", "stream": False}.get(what, name.upper() == b"STREAMS")
    if not re.fullmatch(rb"[A-Za-z0-9._-]{1,128}", name) or reserved:
        raise Refusal("invalid_name", f"{name!r} cannot name a {what}")


def key(queue, kind):
    check_name("queue", queue)
    return b"emq:{%s}:%s" % (queue, kind)


def stream_key(queue, stream):
    check_name("stream", stream)
    return key(queue, b"stream:" + stream)


def slot(key):
    tag = re.search(rb"\{([^}]+)\}", key)
    crc = 0
    for byte in tag[1] if tag else key:
        crc ^= byte << 8
        for _ in range(8):
            crc = crc << 1 ^ (0x1021 if crc & 0x8000 else 0)
        crc &= 0xFFFF
    return crc % 16384


def start(text):
    """The position behind which a reader begins, as commands take it."""
    if text in (b"new", b"head"):
        return {b"new": b"$", b"head": b"0-0"}[text]
    choices = "a start is `new`, `head`, an EVT id, or `@` and milliseconds"
    if text.startswith(b"@"):
        if not re.fullmatch(rb"@-?\d{1,18}", text):
            raise Refusal("invalid_option", f"{text!r} names no instant; {choices}")
        ms = int(text[1:])
        return b"%d-%d" % (ms - 1, 2**64 - 1) if ms > 0 else b"0-0"
    try:
        return entry_text(event(text))
    except Refusal as refusal:
        raise Refusal(refusal.code, f"{refusal}; {choices}") from refusal


def place(text):
    """The two numbers of an entry id."""
    ms, _, tail = text.partition(b"-")
    return int(ms), int(tail or 0)


def sequenced(candidate, last, given, server_ms):
    """The snowflake that an append gets, and what the sequencer then has given if it was asked.

    `last` is the stream's last id as two numbers, `given` the sequencer's last milliseconds and number.
    """
    ahead = entry(candidate)[0] > server_ms + MAX_KEPT_AHEAD_MS
    if entry(candidate) > last and not ahead:
        return candidate, None
    ms, seq = max(last[0], given[0], server_ms if ahead else 0), 0
    if ms == given[0]:
        seq = given[1] + 1
    if seq > 4095 or (ms, SEQUENCER << 12 | seq) <= last:
        ms, seq = ms + 1, 0
    return (ms - EPOCH_MS) << 22 | SEQUENCER << 12 | seq, (ms, seq)


def check_record(fields):
    if any(name == b"id" for name, _ in fields):
        raise Refusal("reserved_field", "a field cannot be named id")
    size = sum(len(name) + len(value) for name, value in fields)
    if size > MAX_RECORD:
        raise Refusal("too_large", f"a record of {size} bytes is over {MAX_RECORD}")


def check_member(name, members):
    if name in ("event", "job"):
        raise Refusal("reserved_field", f"every event has the member {name} already")
    if any(name == other for other, _ in members):
        raise Refusal("invalid_option", f"the member {name} is given twice")


def check_version(value):
    if value is not None and not re.fullmatch(rb"echomq:[23]\.\d+\.\d+", value):
        raise Refusal(
            "version_fence", f"the deployment is {value.decode(errors='replace')}, this is echomq:3.0.0"
        )
