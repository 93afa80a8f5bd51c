"""From an append to its handler, at 1 000 records a second, and the memory over a million deliveries."""

import statistics
import threading
import time
from pathlib import Path

import echomq
import redis
from payload import BATCH, COUNT, FIELDS

RATE = 1_000
KEY = echomq.Keyspace("bench").stream("latency")


def latencies(server, records):
    """Milliseconds from append to handler, by contender: the median and the 99th percentile."""
    with echomq.Client(server.url, node_id=7) as writer, redis.Redis(port=server.port) as peer:
        stream = writer.stream("bench", "latency")
        found = {}
        for contender, receive in (("echomq", receive_by_consumer), ("redis-py", receive_by_hand)):
            writer.command("DEL", KEY)
            stream.create_group("g", "head")
            arrived, ready = [], threading.Event()
            thread = threading.Thread(target=receive, args=(stream, peer, records, arrived, ready))
            thread.start()
            ready.wait()
            begin = time.perf_counter()
            for number in range(records):
                while time.perf_counter() < begin + number / RATE:
                    time.sleep(0.000_05)
                stream.append({"at": str(time.perf_counter_ns()), **FIELDS})
            thread.join()
            cuts = statistics.quantiles(arrived, n=100)
            found[contender] = (cuts[49], cuts[98])
        return found


def receive_by_consumer(stream, _peer, records, arrived, ready):
    with stream.consumer("g", start="head", count=COUNT) as consumer:
        ready.set()
        for delivery in consumer:
            arrived.append((time.perf_counter_ns() - int(delivery.record.get("at"))) / 1e6)
            delivery.ack()
            if len(arrived) == records:
                break


def receive_by_hand(_stream, peer, records, arrived, ready):
    ready.set()
    while len(arrived) < records:
        for _, entries in peer.xreadgroup("g", "c", {KEY: ">"}, count=COUNT, block=1_000):
            for _, fields in entries:
                arrived.append((time.perf_counter_ns() - int(fields[b"at"])) / 1e6)
            peer.xack(KEY, "g", *[entry_id for entry_id, _ in entries])


def memory(server, deliveries):
    """Kilobytes in use after the first tenth of the deliveries and after all of them."""
    with echomq.Client(server.url, node_id=7) as client:
        stream = client.stream("bench", "memory")
        with stream.consumer("g", start="head", count=COUNT) as consumer:
            for done in range(0, deliveries, BATCH):
                stream.append_batch([FIELDS] * BATCH)
                for _ in range(BATCH):
                    next(consumer).ack()
                consumer.flush()
                stream.trim(max_len=0)
                if done == deliveries // 10:
                    early = resident()
        return early, resident()


def resident():
    rows = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS:"))


def tables(server, *, short):
    """Both, as Markdown."""
    lines = ["", "From an append to its handler, at 1 000 records a second, in milliseconds.", ""]
    lines += ["| client | median | 99 % |", "|---|---:|---:|"]
    for contender, (median, last) in latencies(server, 1_000 if short else 10_000).items():
        lines.append(f"| {contender} | {median:.3f} | {last:.3f} |")
    if not short:
        deliveries = 1_000_000
        early, late = memory(server, deliveries)
        lines += [
            "",
            f"Memory over {deliveries:,} deliveries: {early:,} kB after the first tenth, {late:,} kB at the end.",
        ]
    return "\n".join(lines) + "\n"
