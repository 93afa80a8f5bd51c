"""The calls that wait: one caller, eight threads, batches."""

import threading
import time
from contextlib import closing

import echomq
import redis
from glide_sync import GlideClient, GlideClientConfiguration, NodeAddress
from payload import BATCH, FIELDS, PAIRS, THREADS


def measure(server, rates, size, only):
    """One round."""
    ours = echomq.Client(server.url, node_id=7)
    stream = ours.stream("bench", "events")
    peers = {
        "redis-py": redis.Redis(port=server.port),
        "redis-py, RESP2": redis.Redis(port=server.port, protocol=2),
    }
    glide = GlideClient.create(GlideClientConfiguration([NodeAddress("127.0.0.1", server.port)]))

    def timed(group, contender, count, run):
        if only in group:
            ours.command("FLUSHALL")
            started = time.perf_counter()
            run()
            rates.add(group, contender, count, time.perf_counter() - started)

    with ours, closing(glide), peers["redis-py"], peers["redis-py, RESP2"]:
        appends = {
            "echomq": lambda: stream.append(FIELDS),
            **{name: lambda peer=peer: peer.xadd("events", FIELDS) for name, peer in peers.items()},
            "valkey-glide-sync": lambda: glide.xadd("events", PAIRS),
        }
        single, many = 300 * size, 600 * size
        for name, append in appends.items():
            repeat(append, 50)
            timed("append, one caller", name, single, lambda append=append: repeat(append, single))
        for name, append in appends.items():
            timed(f"append, {THREADS} threads", name, many, lambda append=append: in_threads(append, many))
        records = [FIELDS] * BATCH
        batches = {
            "echomq": lambda: stream.append_batch(records),
            "echomq, atomic": lambda: stream.append_batch(records, atomic=True),
            **{name: lambda peer=peer: pipeline(peer) for name, peer in peers.items()},
        }
        for name, batch in batches.items():
            batch()
            timed(f"batch of {BATCH}", name, size * 2 * BATCH, lambda batch=batch: repeat(batch, size * 2))


def pipeline(peer):
    commands = peer.pipeline(transaction=False)
    for _ in range(BATCH):
        commands.xadd("events", FIELDS)
    return commands.execute()


def repeat(call, times):
    for _ in range(times):
        call()


def in_threads(call, times):
    threads = [threading.Thread(target=repeat, args=(call, times // THREADS)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
