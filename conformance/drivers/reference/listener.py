"""Hearing the light signals of a queue, and the token that a signal or a mark trips."""

import collections
import contextlib
import socket
import threading
import time

import events
import faults
import law
from stream import Connection

BUFFER = 1024
PAUSE = 0.005
GAP = None


class Listener:
    """One subscription and a bounded buffer."""

    def __init__(self, bus, queue):
        self.bus, self.channel = bus, law.key(queue, b"events")
        self.buffer = collections.deque()
        self.filled = threading.Condition()
        self.ended = False
        self.thread = threading.Thread(target=self.follow, daemon=True)
        if not faults.subscribes_late():
            self.begin()

    def begin(self):
        self.connection = self.subscribed()
        self.thread.start()

    def subscribed(self):
        connection = Connection(self.bus.url)
        try:
            law.check_version(connection.command(b"GET", b"{emq}:version"))
            connection.command(b"SUBSCRIBE", self.channel)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self):
        """Nothing is heard any more."""
        self.ended = True
        if faults.unsubscribes() and self.thread.is_alive():
            # It may be gone already.
            with contextlib.suppress(OSError):
                self.connection.socket.shutdown(socket.SHUT_RDWR)
            self.thread.join()

    def follow(self):
        while not self.ended:
            try:
                _, _, payload = self.connection.reply()
            except OSError:
                self.connection.close()
                self.subscribe_again()
                continue
            for heard in faults.heard(payload):
                self.put(heard)

    def subscribe_again(self):
        while not self.ended and faults.subscribes_again():
            try:
                self.connection = self.subscribed()
            except OSError:
                time.sleep(PAUSE)
                continue
            except law.Refusal as refusal:
                self.put(refusal)
                break
            for gap in faults.gaps(GAP):
                self.put(gap)
            return
        self.ended = True

    def put(self, heard):
        """A gap stands for all that did not fit, in the place where it is missing."""
        with self.filled:
            if heard is not GAP and len(self.buffer) >= faults.buffer(BUFFER):
                if self.buffer[-1] is not GAP and faults.counts_what_is_lost():
                    self.buffer.append(GAP)
                return
            self.buffer.append(heard)
            self.filled.notify()

    def take(self, wait):
        """What was heard next, as a list of one; nothing where nothing came in time."""
        if not self.thread.is_alive() and not self.ended:
            self.begin()
        with self.filled:
            self.filled.wait_for(lambda: self.buffer, wait)
            heard = [faults.next_of(self.buffer)] if self.buffer else []
        if heard and isinstance(heard[0], law.Refusal):
            raise heard[0]
        return heard

    def next(self, wait):
        for heard in self.take(wait):
            return [b"gap"] if heard is GAP else faults.told([events.name(heard), heard])
        return []

    def next_cancelled(self, wait):
        answer = self.next(wait)
        return answer and faults.given(answer) or [b"cancelled"]


class Watch:
    """A token that trips on the mark or on the event, whichever is learnt first."""

    def __init__(self, bus, queue, job):
        law.decode_id(job)
        self.bus, self.job, self.reason = bus, job.decode(), None
        self.mark = law.key(queue, b"cancel:" + job)
        # First the subscription, then the mark: what happens in between is learnt twice rather than never.
        self.listener = Listener(bus, queue)
        if faults.reads_the_mark_at_first():
            self.read_mark()

    def close(self):
        self.listener.close()

    def read_mark(self):
        # The client's own connection may be lost as the subscription was.
        connection = Connection(self.bus.url)
        reason = connection.command(b"GET", self.mark)
        connection.close()
        if reason is not None:
            self.trip(reason)

    def trip(self, reason):
        if self.reason is None or faults.last_reason_counts():
            self.reason = reason

    def cancelled(self, wait):
        """The reason; nothing where none is known in time."""
        until = time.monotonic() + wait
        while self.reason is None or faults.last_reason_counts():
            heard = self.listener.take(max(0, until - time.monotonic()))
            if not heard:
                break
            if heard[0] is not GAP:
                self.hear(events.read(heard[0]))
            elif faults.reads_the_mark_after_a_gap():
                self.read_mark()
        return [] if self.reason is None else [self.reason]

    def hear(self, members):
        if members.get("event") in faults.that_cancel(["cancel"]) and faults.watched(self.job, members.get("job")):
            reason = members.get("reason")
            self.trip(reason.encode() if isinstance(reason, str) else b"")
