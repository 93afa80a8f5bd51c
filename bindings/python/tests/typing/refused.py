"""Mistakes that type checkers find: each line would otherwise have a needless `ignore`, which is an error itself."""

from datetime import datetime

import echomq


async def mistakes(client: echomq.Client, aio: echomq.aio.Client, now: datetime) -> None:
    events = client.stream("q", "s")
    events.append({"n": 1})  # type: ignore[dict-item]
    events.append(5)  # type: ignore[arg-type]
    events.append_id(5, {})  # type: ignore[arg-type]
    events.append_batch({"n": "1"})  # type: ignore[dict-item]
    events.read_since(5)  # type: ignore[arg-type]
    events.read_window(now)  # type: ignore[call-arg]
    events.trim()  # type: ignore[call-overload]
    events.trim(max_len=5, min_id=now)  # type: ignore[call-overload]
    client.close(5)  # type: ignore[arg-type]
    echomq.Client("redis://h", no_such_option=1)  # type: ignore[call-arg]
    echomq.Client("redis://h", node_id="7")  # type: ignore[arg-type]
    events.consumer("g")  # type: ignore[call-arg]
    events.consumer("g", start=5)  # type: ignore[arg-type]
    events.consumer("g", start="head", counts=5)  # type: ignore[call-arg]
    events.tail()  # type: ignore[call-arg]
    events.tail("head").from_  # type: ignore[attr-defined]  # noqa: B018
    signals = client.events("q")
    signals.publish("completed")  # type: ignore[call-arg]
    signals.publish("completed", "j", {"n": 1})  # type: ignore[dict-item]
    signals.update_progress("j", 1.5)  # type: ignore[arg-type]
    signals.cancel("j", "why", 5)  # type: ignore[arg-type]
    signals.listen().subscribe(10)  # type: ignore[call-arg]
    signals.listen().reduce(lambda count: count, 0)  # type: ignore[misc, arg-type]
    signals.watch("j").reason = "why"  # type: ignore[misc]
    next(signals.listen().subscribe()).name  # type: ignore[union-attr]  # noqa: B018
    for record in aio.stream("q", "s").read():  # type: ignore[attr-defined]
        print(record)
