"""The light signals of a queue: publishing, a job's progress, and the mark that asks for a job's end."""

import json

import faults
import law
from law import Refusal
from stream import ServerError

MARK_MS = 86_400_000
MAX_EVENT = 1 << 20


def text(what, value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Refusal("invalid_option", f"{what} is no UTF-8, which JSON needs: {value!r}") from None


def written(event, job, extra):
    """The payload of an event."""
    if not event:
        raise Refusal("invalid_name", "an event has a name, and this one is empty")
    law.decode_id(job)
    members = [("event", text("the event", event)), ("job", job.decode())]
    for name, value in extra:
        name = text("a member", name)
        law.check_member(name, members)
        members.append((name, text(f"the value of {name}", value)))
    payload = faults.payload(members, json.dumps(dict(members), ensure_ascii=False, separators=(",", ":")))
    if len(payload.encode()) > MAX_EVENT:
        raise Refusal("too_large", f"an event of {len(payload)} characters is over {MAX_EVENT} bytes")
    return payload.encode()


def read(payload):
    """The members of a payload; none where it is no JSON object."""
    try:
        members = json.loads(payload.decode(), parse_constant=refuse)
        # Half of a pair of surrogates is no character.
        json.dumps(members, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def refuse(constant):
    raise ValueError(f"JSON has no {constant}")


def name(payload):
    event = read(payload).get("event")
    return event.encode() if isinstance(event, str) else b"unknown"


def append_and_publish(bus, queue, stream, event, job, fields):
    """Appends a record, and publishes the event once it is there."""
    channel = law.key(queue, b"events")
    payload = written(event, job, [])
    id = bus.append(queue, stream, fields)
    bus.connection.command(b"PUBLISH", channel, payload)
    return id


def publish(bus, queue, event, job, extra):
    channel = law.key(queue, b"events")
    bus.connection.command(b"PUBLISH", channel, written(event, job, extra))


def progress(bus, queue, job, value):
    """Changes the row and publishes, in one step; a job without a row is gone."""
    channel = law.key(queue, b"events")
    payload = written(b"progress", job, [(b"progress", value)])
    row = law.key(queue, b"job:" + job)
    command = bus.connection.command
    if faults.publishes_before_the_verdict():
        command(b"PUBLISH", channel, payload)
    while True:
        command(b"WATCH", row)
        try:
            kind = command(b"TYPE", row)
            if kind == b"none" and faults.needs_a_row():
                raise Refusal("gone", f"the job {job.decode()} has no row")
            if kind not in (b"none", b"hash"):
                raise Refusal("wrong_type", f"{row.decode()} is no row of a job")
            change = (b"HSET", row, b"progress", value)
            steps = [(b"MULTI",), change, *faults.announced((b"PUBLISH", channel, payload)), (b"EXEC",)]
            replies = bus.connection.pipeline(steps)[-1]
        finally:
            command(b"UNWATCH")
        if isinstance(replies, ServerError):
            raise bus.refusal(row, replies)
        if replies is not None:
            return


def cancel(bus, queue, job, reason):
    """Leaves the mark for those who are away, then tells those who listen."""
    channel = law.key(queue, b"events")
    payload = written(b"cancel", job, [(b"reason", reason)])
    mark = (b"SET", law.key(queue, b"cancel:" + job), reason, b"PX", b"%d" % MARK_MS)
    for command in faults.cancelling(mark, (b"PUBLISH", channel, payload)):
        bus.connection.command(*command)
