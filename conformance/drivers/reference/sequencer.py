"""Appending where several write: the id is chosen on what the server holds, and written only if that has not changed."""

import faults
import law
from law import Refusal


KEPT_MS = 60_000


def append(bus, connection, key, queue, candidate, fields):
    """Appends a record with the candidate or the sequencer's id, and answers its snowflake."""
    question = Question(bus, queue, candidate)
    try:
        return change(bus, connection, key, queue, lambda: (candidate, fields, []), question=question)
    except OSError:
        bus.connect_again()
    answer = question.answered(key, fields) if faults.asks_again() else None
    if answer is not None:
        return answer
    return change(bus, bus.connection, key, queue, lambda: (candidate, fields, []), question=question)


class Question:
    """What an append asks, under which its answer is kept, so that it may be asked again."""

    def __init__(self, bus, queue, candidate):
        self.bus, self.candidate = bus, candidate
        self.key = law.key(queue, b"asked:%d" % (law.entry(candidate)[0] // 5000))
        self.field = law.branded(candidate).encode() + bus.token

    def kept(self, snowflake):
        keep = (b"HSET", self.key, self.field, law.branded(snowflake).encode())
        return [keep, (b"PEXPIRE", self.key, b"%d" % KEPT_MS)]

    def answered(self, key, fields):
        """The id that the question got before; nothing where it got none."""
        place = law.entry_text(self.candidate)
        given, found = self.bus.connection.pipeline([(b"HGET", self.key, self.field), (b"XRANGE", key, place, place)])
        if given is not None:
            return law.event(given)
        written = [part for pair in fields for part in pair]
        return self.candidate if found and found[0][1][2:] == written else None


def change(bus, connection, key, queue, prepare, watched=(), question=None):
    """Appends what `prepare` answers, candidate and fields, in one step with the commands that it answers.

    It is asked once more whenever another client has changed a key meanwhile. Where it answers nothing, nothing is done.
    """
    sequencer = law.key(queue, b"seq")
    while True:
        connection.command(b"WATCH", key, sequencer, *watched)
        try:
            prepared = prepare()
            if prepared is None:
                return None
            candidate, fields, others = prepared
            snowflake, given = choose(bus, connection, key, sequencer, candidate)
            commands = [(b"MULTI",), *faults.written(faults.xadd(key, snowflake, fields)), *others]
            if given and question is not None:
                commands += question.kept(snowflake)
            if given:
                commands.append((b"HSET", sequencer, b"ms", b"%d" % given[0], b"seq", b"%d" % given[1]))
            replies = connection.pipeline([*commands, (b"EXEC",)])[-1]
        finally:
            connection.command(b"UNWATCH")
        if replies is not None:
            return snowflake


def choose(bus, connection, key, sequencer, candidate):
    server = server_ms(connection)
    last = last_id(bus, connection, key)
    ahead = server + law.MAX_AHEAD_MS
    instant, _ = law.entry(candidate)
    if instant > ahead:
        raise Refusal("clock_ahead", f"the candidate is of {instant} ms, the server's clock shows {server} ms")
    if last[0] > ahead and faults.bounds_streams():
        raise Refusal("stream_ahead", f"the stream's last id is of {last[0]} ms, the server's clock shows {server} ms")
    try:
        ms, seq = connection.command(b"HMGET", sequencer, b"ms", b"seq")
    except Exception as error:
        raise bus.refusal(sequencer, error) from error
    given = (0, -1) if ms is None else (int(ms), int(seq))
    given = faults.known_to_sequencer(given)
    return faults.sequenced(law.sequenced(candidate, last, given, faults.server_ms(server)), candidate)


def server_ms(connection):
    seconds, micros = map(int, connection.command(b"TIME"))
    return seconds * 1000 + micros // 1000


def last_id(bus, connection, key):
    """The stream's last id as two numbers; zeros where there is no stream."""
    try:
        info = connection.command(b"XINFO", b"STREAM", key)
    except Exception as error:
        if "no such key" in str(error):
            return 0, 0
        raise bus.refusal(key, error) from error
    return law.place(dict(zip(info[::2], info[1::2]))[b"last-generated-id"])
