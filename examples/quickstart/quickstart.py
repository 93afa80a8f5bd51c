import os

import echomq

url = os.environ.get("ECHOMQ_URL", "redis://localhost:6379")
with echomq.Client(url) as client:
    events = client.stream("codemojex", "events")

    id = events.append({"kind": "guessed", "player": "ada"})
    for record in events.read(id, "+"):
        print(record.id, record.get("player"))
