"""A writer in Python for the fault tests; see README.md."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python" / "python"))

import echomq

given = dict(argument.split("=", 1) for argument in sys.argv[1:])
log, gate, name = given.pop("log"), given.pop("gate"), given.pop("name")
sequenced, batch = given.pop("how") == "sequenced", int(given.pop("batch"))
count, seconds = int(given.pop("count", sys.maxsize)), int(given.pop("time", sys.maxsize)) / 1000
stream = given.pop("stream")
ids = []

with echomq.Client(given.pop("url"), **given) as client:
    events = client.stream("codemojex", stream)
    append = events.append_sequenced if sequenced else events.append

    Path(log).write_text("ready\n")
    while not Path(gate).exists():
        time.sleep(0.001)
    begun = time.monotonic()
    while len(ids) < count and time.monotonic() - begun < seconds:
        ids.append(append({"writer": name, "n": str(len(ids))}))
        numbers = range(len(ids), min(len(ids) + batch, count))
        records = [{"writer": name, "n": str(n)} for n in numbers]
        if records:
            ids += events.append_batch(records, atomic=True, sequenced=sequenced)

with Path(log).open("a") as lines:
    lines.writelines(f"appended {id}\n" for id in ids)
