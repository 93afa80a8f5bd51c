"""Following a stream from a place on."""

import time

import faults
import law
import sequencer
from stream import Connection, ServerError, as_read


class Tail:
    def __init__(self, bus, key, after):
        self.bus, self.key = bus, key
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
            block = b"%d" % max(1, left * 1000)
            after = faults.after(self.after)
            read = (b"XREAD", b"COUNT", b"1", b"BLOCK", block, b"STREAMS", self.key, after)
            try:
                streams = self.connection.command(*read)
            except ServerError as error:
                raise self.bus.refusal(self.key, error) from error
            except OSError:
                self.connection.close()
                self.connection = Connection(self.bus.url)
                continue
            for _, entries in streams or []:
                self.after = entries[0][0]
                if (answer := as_read(entries[0])) is not None:
                    return answer
        return []
