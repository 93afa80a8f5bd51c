"""Following a stream from a place on."""

import time

import faults
import law
import sequencer
from stream import Connection, ServerError, as_read


BLOCK = 100


class Tail:
    def __init__(self, bus, key, after):
        self.bus, self.key = bus, key
        self.reading = False
        place = law.start(after)
        self.connection = Connection(bus.url)
        # The end of the stream is turned into an id once; what is appended between two reads is not missed.
        last = sequencer.last_id(bus, self.connection, key)
        self.after = b"%d-%d" % last if place == b"$" else faults.first_place(place)

    def close(self):
        self.connection.close()

    def next(self, wait):
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            answer = self.step(max(1, left * 1000), None)
            if answer is not None:
                return answer
        return []

    def next_cancelled(self, wait):
        """Waits so long; a read that is under way then is gone on with by whoever waits next."""
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            answer = self.step(BLOCK, left)
            if answer is not None:
                return faults.given(answer) or [b"cancelled"]
        return [b"cancelled"]

    def step(self, block, patience):
        """The next record, where it comes while one read blocks, and is not waited for longer."""
        try:
            if not self.reading:
                after = faults.after(self.after)
                read = (b"XREAD", b"COUNT", b"1", b"BLOCK", b"%d" % block, b"STREAMS", self.key, after)
                self.connection.send(*read)
                self.reading = True
            if patience is not None and not self.connection.ready(patience):
                return None
            self.reading = False
            streams = self.connection.receive()
        except ServerError as error:
            raise self.bus.refusal(self.key, error) from error
        except OSError:
            self.reading = False
            self.connection.close()
            self.connection = Connection(self.bus.url)
            return None
        for _, entries in streams or []:
            self.after = entries[0][0]
            return as_read(entries[0])
        return None
