"""Node leases: no two live processes mint with one node."""

import os
import random
import socket
import time

import faults
import law
from law import Refusal

LEASE_MS = 30_000
LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
REGISTRY, FLOORS = b"{emq}:nodes", b"{emq}:nodes:floor"

# KEYS: the leases, the owner's row, the floors. ARGV: owner, node or nothing for the lowest that is free, lease in ms, the
# highest instant that the holder may mint before it renews, host, process. Answers node and floor, or nothing.
ACQUIRE = b"""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local taken = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  taken[member:match('^%d+')] = true
end
local node = ARGV[2]
if node == '' then
  for free = 1022, 0, -1 do
    if not taken[tostring(free)] then node = tostring(free) end
  end
  if node == '' then return false end
end
local floor = redis.call('HGET', KEYS[3], node) or '0'
local limit = math.max(tonumber(floor), tonumber(ARGV[4])) + ARGV[3]
redis.call('ZADD', KEYS[1], now + ARGV[3], node .. ':' .. ARGV[1])
redis.call('HSET', KEYS[2], 'host', ARGV[5], 'process', ARGV[6], 'client_name', '')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[3], node, string.format('%.0f', limit))
return {node, floor}
"""

# KEYS as above. ARGV: owner, node, lease in ms, the highest instant. Answers whether the lease is still there.
RENEW = b"""
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local member = ARGV[2] .. ':' .. ARGV[1]
if not redis.call('ZSCORE', KEYS[1], member) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], member)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[3], ARGV[2], string.format('%.0f', ARGV[4] + ARGV[3]))
return 1
"""

# KEYS as above. ARGV: owner, node, the last instant that was minted.
RELEASE = b"""
if redis.call('ZREM', KEYS[1], ARGV[2] .. ':' .. ARGV[1]) == 1 then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
end
"""


def ulid():
    """A name that no other process has: a clock, and chance."""
    number = time.time_ns() // 1_000_000 << 80 | random.SystemRandom().getrandbits(80)
    return "".join(LETTERS[number >> shift & 31] for shift in range(125, -1, -5)).encode()


class Lease:
    """The right of one client to mint with one node, taken on its first mint."""

    def __init__(self, connection, given, now):
        self.owner = ulid()
        self.given = given is not None
        asked = faults.asked_node(b"" if given is None else b"%d" % given)
        self.begin(now)
        if not faults.registers(self.given):
            self.node, self.floor = given, 0
            return
        held = self.run(connection, faults.acquiring(ACQUIRE), asked, LEASE_MS, now, socket.gethostname(), os.getpid())
        if held is None:
            raise Refusal("node_conflict", "all nodes of 0 to 1022 are leased; nodes() says who holds them")
        self.node = int(held[0])
        # What an earlier holder may have minted is never minted again. A node that the user gave is taken as it is.
        self.floor = 0 if self.given else faults.floor(int(held[1]))

    def run(self, connection, script, *arguments):
        keys = (REGISTRY, REGISTRY + b":" + self.owner, FLOORS)
        words = [value if isinstance(value, bytes) else str(value).encode() for value in (self.owner, *arguments)]
        return connection.command(b"EVAL", script, b"3", *keys, *words)

    def begin(self, now):
        self.limit = now + LEASE_MS
        # This clock goes on while the host is asleep.
        self.renewed = time.clock_gettime(time.CLOCK_BOOTTIME)

    def check(self, connection, now):
        """Renews a lease that is older than a third of its time; a lease that is gone is not made anew."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.renewed
        if age * 3000 < LEASE_MS and now < self.limit:
            return
        if self.given:
            return
        self.begin(now)
        if not self.run(connection, RENEW, b"%d" % self.node, LEASE_MS, now):
            raise Refusal("node_lease_lost", f"the lease of node {self.node} has run out")

    def release(self, connection, last):
        if faults.releases():
            self.run(connection, RELEASE, b"%d" % self.node, last)


def nodes(connection):
    """Who holds which node: node, owner and milliseconds left."""
    seconds, micros = map(int, connection.command(b"TIME"))
    now = seconds * 1000 + micros // 1000
    reply = connection.command(b"ZRANGE", REGISTRY, b"0", b"-1", b"WITHSCORES")
    leases = []
    for member, deadline in zip(reply[::2], reply[1::2]):
        node, _, owner = member.partition(b":")
        left = int(float(deadline)) - now
        if left > 0:
            leases.append([node, owner, b"%d" % left])
    return faults.nodes(sorted(leases, key=lambda lease: int(lease[0])))


def first_cell(floor):
    """The cell behind everything that was minted up to an instant."""
    return (floor - law.EPOCH_MS + 1 << 12) - 1
