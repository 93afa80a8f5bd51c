"""A user's program, which type checkers accept as strictly as they can."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import echomq
from echomq import EchoMQError, NonmonotonicError, Record
from echomq.aio import Client as AioClient


def waiting(url: str) -> list[str]:
    options: echomq.Options = {"node_id": 7, "timeout": timedelta(seconds=2), "tls_ca": Path("ca.pem")}
    options["password"] = os.environ.get("PASSWORD")
    with echomq.Client(url, **options) as client:
        events: echomq.Stream = client.stream("codemojex", "events")
        id: str = events.append({"kind": "guessed", "raw": b"\xff"})
        events.append([("kind", "guessed"), (b"kind", bytearray(b"again"))])
        events.append({b"kind": memoryview(b"guessed")})
        fields: echomq.Fields = [("a", "b")]
        events.append_id(id, fields)
        ids: list[str] = events.append_batch([{"n": "1"}], atomic=True)
        for result in events.append_batch([{"n": "1"}, fields]):
            ids.append(result.code if isinstance(result, EchoMQError) else result)
        now = datetime.now(UTC)
        day: list[Record] = events.read_window(now - timedelta(days=1), now, limit=10).all()
        for record in events.read(f"({id}", page_size=100):
            pairs: list[tuple[str, str]] = record.fields
            raw: list[tuple[bytes, bytes]] = record.raw
            kind: str = record.get("kind", "")
            maybe: str | None = record.get(b"kind")
            print(record.id, record.entry_id, record.foreign, pairs, raw, kind, maybe, day)
        gone: int = events.trim(max_len=10) + events.trim(min_id=now, exact=True)
        unfinished: int = client.close(timedelta(seconds=1))
        print(gone, unfinished, client.status().connected, client.command("PING"), client.pipeline([["PING"]]))
        page = events.read_last(3).next_page()
        return ids if page is None else [record.entry_id for record in page]


async def asynchronous(url: str) -> int:
    client = await AioClient(url, node_id=7)
    async with client, echomq.aio.Client(url) as other:
        events = client.stream("codemojex", "events")
        pending: asyncio.Future[str] = events.append({"n": "1"})
        first, second = await asyncio.gather(pending, events.append([]))
        many: list[str] = await events.append_batch([{}], atomic=True)
        kinds = [record.get("kind") async for record in other.stream("codemojex", "events").read(first, second)]
        try:
            await events.append_id(many[0], {})
        except NonmonotonicError as error:
            print(error.code, error.message, error.subject, error.id, error.top)
        return len(kinds) + await events.trim(max_len=0) + await client.close()


def handle(delivery: echomq.Delivery) -> None:
    kind: str | None = delivery.record.get("kind")
    if kind is None:
        delivery.fail(b"no kind", delay=timedelta(seconds=1))
    print(delivery.id, delivery.entry_id, delivery.attempts, delivery.group)


async def handle_later(batch: list[echomq.Delivery]) -> None:
    for delivery in batch:
        delivery.ack()


def consuming(events: echomq.Stream, now: datetime) -> int:
    options: echomq.ConsumerOptions = {"start": now, "retry": (100, timedelta(seconds=5)), "min_idle": 30_000}
    with events.consumer("mailer", **options) as consumer:
        consumer.run(handle)
        consumer.run_batches(lambda batch: batch[0].give_back())
        for delivery in consumer:
            delivery.extend()
        notice: echomq.Notice = next(consumer.notices())
        one: echomq.Delivery | None = consumer.next(timedelta(0))
        print(notice.kind, notice.entry_id, notice.attempts, notice.code, one, consumer.next_batch())
        left: int = consumer.stop(timedelta(seconds=1))
    for found in events.tail("new"):
        place: str | None = found.from_ if isinstance(found, echomq.Gap) else found.id
        print(place)
    group: echomq.GroupInfo = events.group("mailer")
    lag: int | None = group.lag
    ids: list[str] = events.append_batch([{}], sequenced=True)
    print(lag, ids, [consumer.idle for consumer in group.consumers], events.put_back(events.append_sequenced({})))
    return left


async def consuming_later(events: echomq.aio.Stream) -> int:
    consumer = await events.consumer("mailer", start="head", concurrency=4)
    await consumer.run(handle)
    await consumer.run_batches(handle_later)
    async for delivery in consumer:
        delivery.ack()
    batch: list[echomq.Delivery] = await consumer.next_batch()
    kinds: list[str] = [notice.kind async for notice in consumer.notices()]
    async with events.tail("head") as tail:
        first: echomq.Record | echomq.Gap = await anext(tail)
    made: bool = await events.create_group("mailer", "new")
    print(batch, kinds, first, made, await events.sweep_consumers("mailer", timedelta(hours=1)))
    return await consumer.stop()


def count(counts: dict[str, int], heard: echomq.Event | echomq.EventGap) -> dict[str, int]:
    name = heard.name if isinstance(heard, echomq.Event) else f"gap of {heard.missed}"
    return {**counts, name: counts.get(name, 0) + 1}


async def count_later(total: int, heard: echomq.Event | echomq.EventGap) -> int:
    return total + (1 if isinstance(heard, echomq.Event) else heard.missed)


def told(error: Exception, heard: echomq.Event | echomq.EventGap) -> None:
    print(error, heard)


def hearing(events: echomq.Events) -> int | None:
    listening: int = events.publish("completed", "JOB000xY9Wvvcd", {"n": b"1"}) + events.update_progress("JOB", 50)
    announced: echomq.Announced = events.append_and_publish("s", [("a", "b")], "completed", "JOB", [("a", "b")])
    print(announced.id, announced.published, announced.error, events.channel, listening)
    decided = events.after_verdict(lambda: "done", "completed", "JOB000xY9Wvvcd")
    verdict: str | None = None if decided is None else decided.verdict
    with events.listen() as listener, listener.subscribe(buffer=10) as subscriber:
        none: dict[str, int] = {}
        with listener.reduce(count, none, on_failure=told) as reduction:
            state: dict[str, int] = reduction.state
            ended: bool = reduction.join(timedelta(seconds=1))
        for heard in subscriber:
            if isinstance(heard, echomq.EventGap):
                print(heard.missed, heard.reconnected)
                continue
            job: str | None = heard.job
            members: dict[str, str] = heard.members
            print(job, members, heard.payload, heard.get("n"), heard.get("n", 5))
        one: echomq.Event | echomq.EventGap | None = subscriber.next(timedelta(0))
        print(state, ended, one, verdict, listener.status().error)
    token: echomq.CancelToken = events.watch("JOB000xY9Wvvcd")
    why: str | None = token.wait(timedelta(seconds=1))
    reason: str = token.wait()
    try:
        token.raise_if_cancelled()
    except echomq.Cancelled as cancelled:
        print(cancelled.reason, why, reason, token.watch_error)
    return events.cancel("JOB000xY9Wvvcd", "why", ttl=timedelta(hours=1))


async def hearing_later(events: echomq.aio.Events) -> int:
    async def decide() -> int | None:
        return 7

    decided = await events.after_verdict(decide, "completed", "JOB000xY9Wvvcd")
    verdict: int = 0 if decided is None else decided.verdict
    at_once = await events.after_verdict(lambda: "done", "completed", "JOB000xY9Wvvcd")
    text: str = "" if at_once is None else at_once.verdict
    async with events.listen() as listener, listener.subscribe() as subscriber:
        totals: echomq.aio.Reduction[int] = listener.reduce(count_later, 0)
        none: dict[str, int] = {}
        async with listener.reduce(count, none) as reduction:
            counts: dict[str, int] = reduction.state
        async for heard in subscriber:
            print(heard)
        await totals.join()
    token = await events.watch("JOB000xY9Wvvcd")
    reason: str = await token
    task: asyncio.Future[str] = asyncio.ensure_future(token)
    print(counts, reason, text, totals.state, task, (await events.append_and_publish("s", {}, "e", "j")).id)
    return verdict + await events.publish("completed", "JOB000xY9Wvvcd")


identity = echomq.Id("EVT0NgWEfAER90")
parts: tuple[str, int, int, str | None, datetime] = (
    identity.namespace,
    identity.snowflake,
    identity.node,
    identity.entry_id,
    identity.instant,
)
slot: int = echomq.slot(echomq.Keyspace("orders").stream("events"))
