"""What is known of a group."""

import faults
import law
from law import Refusal
from stream import ServerError


def members(reply):
    return dict(zip(reply[::2], reply[1::2]))


def info(bus, queue, stream, group):
    """Pending entries, lag (empty where unknown), and the names of the consumers."""
    key = law.stream_key(queue, stream)
    law.check_name("group", group)
    try:
        groups = map(members, bus.connection.command(b"XINFO", b"GROUPS", key))
        found = next((known for known in groups if known[b"name"] == group), None)
        if found is None:
            raise Refusal("no_group", f"{key.decode()} has no group {group.decode()}")
        consumers = bus.connection.command(b"XINFO", b"CONSUMERS", key, group)
        # The server's number may count what was trimmed away; where it has none, it does not know.
        ahead = bus.connection.command(b"XRANGE", key, b"(" + found[b"last-delivered-id"], b"+")
    except ServerError as error:
        raise bus.refusal(key, error) from error
    server = found[b"lag"]
    lag = b"" if server is None else b"%d" % faults.lag(len(ahead), server)
    return [b"%d" % found[b"pending"], lag, *(members(consumer)[b"name"] for consumer in consumers)]
