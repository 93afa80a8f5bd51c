"""A consumer of a group, which fetches an entry when it is asked for one."""

import threading
import time

import faults
import law
import sequencer
from group import members
from law import Refusal
from stream import Connection, ServerError, as_read

BLOCK = 50
SILENT = b"its deliveries ended without a verdict"
DEFAULTS = {"count": 100, "beat": 1000, "min_idle": 30_000}


def read_options(given):
    options = dict(DEFAULTS, max_attempts=None, retry=None)
    for name, value in given.items():
        try:
            if name not in options:
                raise ValueError
            numbers = [int(number) for number in value.split("..")]
            if min(numbers) < 1 or len(numbers) > (2 if name == "retry" else 1):
                raise ValueError
        except ValueError:
            raise Refusal("invalid_option", f"a consumer has no {name}={value}") from None
        options[name] = (numbers[0], numbers[-1]) if name == "retry" else numbers[0]
    if options["retry"] and not options["retry"][0] <= options["retry"][1] <= options["min_idle"]:
        raise Refusal("invalid_option", "a retry delay is not above min_idle, after which an entry comes back anyway")
    return options


class Consumer:
    def __init__(self, bus, queue, stream, group, name, start, options):
        self.bus, self.queue, self.group, self.name = bus, queue, group, name
        self.key = law.stream_key(queue, stream)
        law.check_name("group", group)
        law.check_name("consumer", name)
        self.start = law.start(start)
        self.options = read_options(options)
        # One connection is for reads that block; nothing else waits behind them.
        self.lane, self.door = Connection(bus.url), Connection(bus.url)
        self.lock = threading.Lock()
        self.hand = {}
        self.due = []
        self.own = b"0-0" if faults.own_pending_first() else None
        self.cursor, self.next_scan = b"0-0", 0
        self.position = (0, 0)
        self.opened = False
        self.reading = False
        if not faults.opens_late():
            self.open_door(self.start)
        self.ended = threading.Event()
        self.heart = threading.Thread(target=self.show_life, daemon=True)
        self.heart.start()

    def close(self):
        """What is in hand stays pending, and comes to another consumer."""
        self.ended.set()
        self.heart.join()
        self.lane.close()
        self.door.close()

    # The door.

    def open_door(self, start):
        self.opened = True
        try:
            self.ask(b"XGROUP", b"CREATE", self.key, self.group, faults.first_place(start), b"MKSTREAM")
        except ServerError as error:
            if not faults.swallows(str(error)):
                raise self.bus.refusal(self.key, error) from error
        try:
            groups = map(members, self.ask(b"XINFO", b"GROUPS", self.key))
            self.position = next(
                law.place(known[b"last-delivered-id"]) for known in groups if known[b"name"] == self.group
            )
        except ServerError:
            pass

    def open_again(self):
        """The group is lost: it begins again behind what was given out, or at the head where the stream is another."""
        if not faults.opens_again():
            time.sleep(0.01)
            return
        with self.lock:
            last = sequencer.last_id(self.bus, self.door, self.key)
        behind = (0, 0) if last < self.position else self.position
        self.own = None
        self.open_door(b"%d-%d" % behind)

    # The connection that does not block.

    def ask(self, *command):
        with self.lock:
            try:
                return self.door.command(*command)
            except OSError:
                # All that is sent here may be sent twice.
                self.door.close()
                self.door = Connection(self.bus.url)
                return self.door.command(*command)

    def show_life(self):
        """Keeps what is in hand from being reclaimed."""
        while not self.ended.wait(self.options["min_idle"] / 3000):
            if faults.keeps_in_hand():
                self.say_idle(list(self.hand), 0)

    def say_idle(self, entries, idle):
        for entry in entries:
            try:
                if self.pending(entry):
                    self.claim(entry, idle)
            except ServerError:
                pass

    def claim(self, entry, idle):
        self.ask(b"XCLAIM", self.key, self.group, self.name, b"0", entry, b"IDLE", b"%d" % idle, b"JUSTID")

    def pending(self, entry):
        """How often an entry was delivered that is pending for this consumer; nothing where it is not."""
        found = self.ask(b"XPENDING", self.key, self.group, entry, entry, b"1", self.name)
        return found[0][3] if found else None

    # Fetching.

    def next(self, wait):
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            answer = self.step(left, None)
            if answer:
                return answer
        return []

    def next_cancelled(self, wait):
        """Waits so long; a read that is under way then is gone on with by whoever waits next."""
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            answer = self.step(BLOCK / 1000, left)
            if answer:
                return faults.given(answer) or [b"cancelled"]
        return [b"cancelled"]

    def step(self, longest, patience):
        try:
            if not self.opened:
                self.open_door(self.start)
            return self.fetch(longest, patience)
        except ServerError as error:
            if str(error).startswith(("NOGROUP", "UNBLOCKED")):
                self.open_again()
                return None
            raise self.bus.refusal(self.key, error) from error
        except OSError:
            # What the lost connection was given is pending, and nobody has seen it.
            self.reading = False
            self.lane.close()
            self.lane = Connection(self.bus.url)
            if self.own is None:
                self.own = b"%d-%d" % self.position
            return None

    def fetch(self, longest, patience):
        if not self.reading:
            if self.own is not None:
                entry = self.first(self.lane.command(*self.reads(self.own, [])))
                if entry is None:
                    self.own = None
                    return None
                self.own = entry[0]
                return self.deliver(entry, None)
            now = time.monotonic()
            if faults.reclaims() and (self.next_scan <= now or any(at <= now for at in self.due)):
                return self.reclaim(now)
            wake = min([self.next_scan, *self.due]) - now
            block = max(1, int(1000 * min(longest, max(wake, 0), self.options["beat"] / 1000)))
            self.lane.send(*self.reads(b">", [b"BLOCK", b"%d" % block]))
            self.reading = True
        if patience is not None and not self.lane.ready(patience):
            return None
        self.reading = False
        entry = self.first(self.lane.receive())
        if entry is None:
            return None
        self.position = law.place(entry[0])
        return self.deliver(entry, 1)

    def reads(self, after, block):
        command = [b"XREADGROUP", b"GROUP", self.group, self.name, b"COUNT", b"1", *block]
        return (*command, b"STREAMS", self.key, after)

    def first(self, streams):
        return streams[0][1][0] if streams and streams[0][1] else None

    def reclaim(self, now):
        min_idle = b"%d" % self.options["min_idle"]
        scan = (b"XAUTOCLAIM", self.key, self.group, self.name, min_idle, self.cursor, b"COUNT", b"1")
        self.cursor, entries, *_ = self.ask(*scan)
        if not entries and self.cursor == b"0-0":
            self.next_scan = now + self.options["beat"] / 1000
            self.due = [at for at in self.due if at > now]
        return self.deliver(entries[0], None) if entries else None

    def deliver(self, entry, attempts):
        """What `next` answers; nothing where the entry is not to be handed out."""
        place, fields = entry
        if place in self.hand:
            return None
        if not fields and faults.tombstones_settled():
            self.ask(b"XACK", self.key, self.group, place)
            return None
        if attempts is None:
            attempts = self.pending(place)
        most = self.options["max_attempts"]
        if most and attempts > most and faults.dead_letters():
            self.dead_letter(place, most, SILENT)
            return None
        answer = as_read([place, fields or [b""]])
        if answer is None:
            return None
        self.hand[place] = attempts
        return [*answer[:2], b"%d" % faults.attempts(attempts), *answer[2:]]

    # Verdicts.

    def acknowledge(self, entry):
        self.take(entry)
        try:
            self.ask(b"XACK", self.key, faults.acknowledging(self.group), entry)
        except ServerError as error:
            raise self.bus.refusal(self.key, error) from error

    def fail(self, entry, reason):
        attempts = self.take(entry)
        most, retry = self.options["max_attempts"], self.options["retry"]
        if most and attempts >= most and faults.dead_letters():
            self.dead_letter(entry, attempts, reason)
        elif retry and (delay := faults.retries(min(retry[0] << attempts - 1, retry[1]))):
            self.say_idle([entry], self.options["min_idle"] - delay)
            self.due.append(time.monotonic() + delay / 1000 + 0.001)

    def take(self, entry):
        if entry not in self.hand:
            raise Refusal("state", f"{entry.decode()} is not in hand")
        return self.hand.pop(entry)

    def dead_letter(self, entry, attempts, reason):
        """Moves an entry to the dead letters, where it is still pending."""
        candidate = self.bus.mint()

        def prepare():
            found = self.door.command(b"XPENDING", self.key, self.group, entry, entry, b"1")
            entries = self.door.command(b"XRANGE", self.key, entry, entry)
            if not found or not entries:
                return None
            id, _, *own = as_read(entries[0])
            at = b"%d" % self.bus.now()
            head = [
                (b"origin", id or entry),
                (b"group", self.group),
                (b"attempts", b"%d" % attempts),
                (b"error", reason),
                (b"at", at),
            ]
            fields = faults.dead_letter(head) + list(zip(own[::2], own[1::2]))
            return candidate, fields, [(b"XACK", self.key, self.group, entry)]

        with self.lock:
            dead = self.key + b":dead"
            sequencer.change(self.bus, self.door, dead, self.queue, prepare, watched=[self.key])
