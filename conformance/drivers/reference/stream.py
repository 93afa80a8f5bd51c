"""One connection to the bus: minting, appending, reading, trimming."""

import re
import select
import socket
import time

import faults
import law
import lease
import sequencer
from law import Refusal

PAGE = 1000
PATIENCE = 20
PAUSE = 0.005
# How long an append waits for a server that cannot serve, or is not there when it is made, in seconds.
SERVES_WITHIN = 5
CANNOT_SERVE = {"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY"}

# Only the first record can be refused, since ids rise: then the script ends before it has written anything.
ALL_OR_NONE = b"""
local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.call('XADD', KEYS[1], unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end
"""

# The last cell of each node: milliseconds and sequence number in one integer. A clock that stands still pins ids, so each
# instant at which one stands has cells of its own.
cells = {}


class ServerError(Exception):
    """An error reply."""


def cannot_serve(reply):
    return isinstance(reply, ServerError) and str(reply).split(" ")[0] in CANNOT_SERVE


class Connection:
    """Commands and replies in RESP2."""

    def __init__(self, url):
        user, password, host, port = re.fullmatch(r"redis://(?:(\w+):(\w+)@)?([^:/@]+):(\d+)/?", url).groups()
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        self.ended = False
        if user is not None:
            self.command(b"AUTH", user.encode(), password.encode())

    def close(self):
        self.input.close()
        self.socket.close()

    def pipeline(self, commands):
        """Sends all commands, then answers all replies; an error reply is a value among them."""
        self.socket.sendall(b"".join(map(packed, commands)))
        return [self.reply() for _ in commands]

    def send(self, *arguments):
        """Sends a command whose reply is taken later, by `receive`."""
        self.socket.sendall(packed(arguments))

    def ready(self, seconds):
        """Whether a reply comes in time, where none was there before."""
        return bool(select.select([self.socket], [], [], seconds)[0])

    def receive(self):
        reply = self.reply()
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def command(self, *arguments):
        (reply,) = self.pipeline([arguments])
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def reply(self):
        line = self.input.readline()
        if not line:
            self.ended = True
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ServerError(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        length = int(rest)
        if length < 0:
            return None
        if kind == b"$":
            return self.input.read(length + 2)[:-2]
        return [self.reply() for _ in range(length)]


def packed(arguments):
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments]
    return b"".join(parts)


class Bus:
    def __init__(self, url, node, clock, many):
        self.url = url
        if node is not None and not 0 <= int(node) <= 1022:
            raise Refusal("invalid_option", f"a host mints with a node of 0 to 1022, not {node}")
        self.given_node = None if node is None else int(node)
        self.clock, self.many = clock, faults.many(many)
        self.lease, self.token = None, lease.ulid()
        self.last_minted = 0
        self.connection = Connection(url)
        faults.on_open(cells)
        law.check_version(self.connection.command(b"GET", b"{emq}:version"))
        seconds, micros = map(int, self.connection.command(b"TIME"))
        self.ahead_of_server = self.now() - (seconds * 1000 + micros // 1000)
        if faults.leases_at_once():
            self.take_node(self.now())

    def close(self):
        if self.lease is not None:
            try:
                self.lease.release(self.connection, self.last_minted)
            except (OSError, ServerError):
                # It ends by itself.
                pass
        self.connection.close()

    def now(self):
        return int(self.clock) if self.clock is not None else time.time_ns() // 1_000_000

    def mint(self):
        now = self.now()
        if faults.bounds_clocks() and self.ahead_of_server > law.MAX_AHEAD_MS:
            raise Refusal(
                "clock_ahead", f"this clock shows {now} ms, {self.ahead_of_server} ms more than the server's"
            )
        if self.lease is None:
            self.take_node(now)
        self.lease.check(self.connection, max(now, self.last_minted))
        node = self.lease.node
        cell = max((now - law.EPOCH_MS) << 12, cells.get((node, self.clock), -1) + 1)
        if cell >> 53:
            raise Refusal("mint_exhausted", "an id's instant needs more than 41 bits")
        cells[node, self.clock] = cell
        self.last_minted = (cell >> 12) + law.EPOCH_MS
        cell = faults.cell(now - law.EPOCH_MS, cell)
        return cell >> 12 << 22 | node << 12 | cell & 0xFFF

    def take_node(self, now):
        self.lease = lease.Lease(self.connection, self.given_node, now)
        if self.clock is None:
            behind = lease.first_cell(self.lease.floor)
            cells[self.lease.node, None] = max(cells.get((self.lease.node, None), -1), behind)

    def append(self, queue, stream, fields):
        if self.many:
            return self.append_sequenced(queue, stream, fields)
        key = law.stream_key(queue, stream)
        law.check_record(fields)
        return self.write(key, self.mint(), fields)

    def append_id(self, queue, stream, id, fields):
        key = law.stream_key(queue, stream)
        snowflake = law.event(id)
        law.check_record(fields)
        return self.write(key, snowflake, fields)

    def write(self, key, snowflake, fields):
        faults.around_append(self.connection, key)
        until = time.monotonic() + SERVES_WITHIN
        if self.connection.ended:
            self.connect_again(SERVES_WITHIN, faults.unsent("disconnected"))
        try:
            (reply,) = self.connection.pipeline([faults.xadd(key, snowflake, fields)])
            while cannot_serve(reply) and faults.waits_for_service():
                if time.monotonic() > until:
                    raise Refusal(faults.unserved("unavailable"), str(reply))
                time.sleep(PAUSE)
                (reply,) = self.connection.pipeline([faults.xadd(key, snowflake, fields)])
        except OSError:
            return self.write_again(key, snowflake, fields)
        if isinstance(reply, ServerError):
            refusal = self.refusal(key, reply)
            if refusal.code == "nonmonotonic" and faults.tries_again():
                return self.write(key, self.above(key), fields)
            raise refusal
        return law.branded(faults.receipt(snowflake))

    def write_again(self, key, snowflake, fields):
        """The answer is lost: what is there decides."""
        command = faults.xadd(key, snowflake, fields)
        place = command[2]
        if faults.gives_up():
            raise Refusal("unknown_outcome", f"{place.decode()} may have been written")
        self.connect_again()
        (found,) = self.connection.pipeline([(b"XRANGE", key, place, place)]) if faults.looks_up() else ([],)
        if found:
            if not faults.same(found[0][1] == command[3:]):
                raise Refusal("node_conflict", f"another process has written {place.decode()}")
            return law.branded(snowflake)
        (reply,) = self.connection.pipeline([command])
        if not isinstance(reply, ServerError):
            return law.branded(snowflake)
        refusal = self.refusal(key, reply)
        if refusal.code == "nonmonotonic" and faults.asks_who_was_there():
            state = self.state(key)
            ours = law.entry(snowflake)
            if state["last"] == ours and self.lease is not None and faults.leased(not self.lease.given):
                return law.branded(snowflake)
            if state["deleted"] >= ours or state["first"] is None or state["first"] > ours:
                raise Refusal("unknown_outcome", f"{place.decode()} may have been written and removed since")
        raise refusal

    def connect_again(self, within=PATIENCE, code="disconnected"):
        self.connection.close()
        until = time.monotonic() + within
        while True:
            try:
                self.connection = Connection(self.url)
                return
            except OSError:
                if time.monotonic() > until:
                    raise Refusal(code, "the server cannot be reached") from None
                time.sleep(PAUSE)

    def append_batch(self, queue, stream, records):
        key = law.stream_key(queue, stream)
        results, sent = [], []
        for fields in records:
            try:
                law.check_record(fields)
                if faults.many_in_batches(self.many):
                    results.append(self.append_sequenced(queue, stream, fields))
                    continue
                snowflake = self.mint()
                sent.append((snowflake, fields))
                results.append(law.branded(snowflake))
            except Refusal as refusal:
                results.append(refusal)
                if faults.stops_a_batch():
                    break
        if faults.many_in_batches(self.many):
            return results
        replies = iter(self.answered(key, sent))
        for at, result in enumerate(results):
            if not isinstance(result, Refusal):
                reply = next(replies, Refusal("disconnected", "the answer is lost"))
                if isinstance(reply, ServerError):
                    results[at] = self.refusal(key, reply)
                elif isinstance(reply, Refusal):
                    results[at] = reply
        return results

    def answered(self, key, sent):
        """The replies to the records of a batch; those that are lost are found out one by one."""
        replies = []
        try:
            self.connection.socket.sendall(b"".join(packed(faults.xadd(key, *record)) for record in sent))
            for _ in sent:
                replies.append(self.connection.reply())
        except OSError:
            for record in faults.rest_of_a_batch(sent[len(replies) :]):
                try:
                    replies.append(self.write_again(key, *record))
                except Refusal as refusal:
                    replies.append(refusal)
        return replies

    def append_batch_atomic(self, queue, stream, records):
        key = law.stream_key(queue, stream)
        if faults.atomic_in_parts():
            results = self.append_batch(queue, stream, records)
            refused = [result for result in results if isinstance(result, Refusal)]
            if refused:
                raise refused[0]
            return results
        for fields in records:
            law.check_record(fields)
        if self.many:
            return [self.append_sequenced(queue, stream, fields) for fields in records]
        snowflakes = [self.mint() for _ in records]
        arguments = []
        for record in zip(snowflakes, records):
            _, _, *record = faults.xadd(key, *record)
            arguments += [b"%d" % len(record), *record]
        try:
            self.connection.command(b"EVAL", ALL_OR_NONE, b"1", key, *arguments)
        except ServerError as error:
            raise self.refusal(key, error) from error
        return [law.branded(snowflake) for snowflake in snowflakes]

    def append_sequenced(self, queue, stream, fields):
        key = law.stream_key(queue, stream)
        law.check_record(fields)
        return law.branded(sequencer.append(self, self.connection, key, queue, self.mint(), fields))

    def append_batch_sequenced(self, queue, stream, records):
        law.stream_key(queue, stream)
        results = []
        for fields in records:
            try:
                results.append(self.append_sequenced(queue, stream, fields))
            except Refusal as refusal:
                results.append(refusal)
        return results

    def state(self, key):
        """The last id of a stream, the highest one that was removed, and the first that is there, as two numbers each."""
        (info,) = self.connection.pipeline([(b"XINFO", b"STREAM", key)])
        if isinstance(info, ServerError):
            return {"last": (0, 0), "deleted": (0, 0), "first": None}
        told = dict(zip(info[::2], info[1::2]))
        first = told[b"first-entry"]
        return {
            "last": law.place(told[b"last-generated-id"]),
            "deleted": law.place(told[b"max-deleted-entry-id"]),
            "first": law.place(first[0]) if first else None,
        }

    def top(self, key):
        """The stream's last id, or nothing where there is no stream."""
        try:
            info = self.connection.command(b"XINFO", b"STREAM", key)
        except ServerError as error:
            if "no such key" in str(error):
                return None
            raise self.refusal(key, error) from error
        last = dict(zip(info[::2], info[1::2]))[b"last-generated-id"]
        ms, tail = last.split(b"-")
        return int(ms), int(tail)

    def above(self, key):
        ms, tail = self.top(key)
        return (ms - law.EPOCH_MS << 22 | tail) + 1

    def nonmonotonic(self, top):
        return Refusal("nonmonotonic", f"the top of the stream is {top[0]}-{top[1]}, at {top[0]} ms")

    def refusal(self, key, error):
        words = str(error)
        if words.startswith("WRONGTYPE"):
            return Refusal("wrong_type", f"{key.decode()} is no stream")
        if words.startswith("NOGROUP") or "no such key" in words:
            return Refusal("no_group", f"{key.decode()} has no such group")
        if "equal or smaller" in words:
            return self.nonmonotonic(self.top(key))
        return Refusal("server", words)

    def read(self, queue, stream, start, end, count):
        key = law.stream_key(queue, stream)
        return self.pages(b"XRANGE", key, bound(start), bound(end), faults.count(count))

    def window(self, queue, stream, start, end, count):
        key = law.stream_key(queue, stream)
        if end is not None and end < start:
            raise Refusal("invalid_window", f"the window ends at {end}, before its start {start}")
        low = b"%d-0" % max(start, 0)
        high = b"+" if end is None else b"%d-%d" % (max(end, 0), faults.last_tail(law.MAX_TAIL))
        return self.pages(b"XRANGE", key, low, high, count)

    def last(self, queue, stream, count):
        key = law.stream_key(queue, stream)
        return self.pages(faults.backwards(b"XREVRANGE"), key, *faults.ends(b"+", b"-"), count)

    def pages(self, command, key, start, end, count):
        records = []
        while not count or len(records) < count:
            size = min(PAGE, count - len(records)) if count else PAGE
            try:
                page = self.connection.command(command, key, start, end, b"COUNT", b"%d" % size)
            except ServerError as error:
                raise self.refusal(key, error) from error
            except ConnectionError as error:
                raise Refusal("disconnected", str(error)) from error
            records += page
            if len(page) < size or faults.one_page():
                break
            start = faults.next_page(b"(" + page[-1][0])
        return [answer for answer in map(as_read, records) if answer is not None]

    def trim(self, queue, stream, by, limit, exact):
        key = law.stream_key(queue, stream)
        limit = b"%d" % limit if by == "maxlen" else b"%d-0" % max(limit, 0)
        how = b"=" if exact and not faults.never_exact() else b"~"
        try:
            return faults.removed(self.connection.command(b"XTRIM", key, by.upper().encode(), how, limit))
        except ServerError as error:
            raise self.refusal(key, error) from error


def bound(place):
    if place in (b"-", b"+"):
        return place
    if place.startswith(b"("):
        return faults.exclusive(b"(") + law.entry_text(law.event(place[1:]))
    return law.entry_text(law.event(place))


def as_read(record):
    """Id, entry id and fields; the id is empty where the entry is foreign."""
    place, fields = record
    fields = faults.as_read(fields)
    if fields[0] == b"id":
        try:
            if law.entry_text(law.event(fields[1])) == place:
                return [fields[1], place, *fields[2:]]
        except Refusal:
            pass
    return faults.foreign([b"", place, *fields])
