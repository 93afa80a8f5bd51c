import os

import echomq

url = os.environ.get("ECHOMQ_URL", "redis://localhost:6379")
with echomq.Client(url) as client:
    games = client.stream("codemojex", "games")

    with games.consumer("mailer", start="new") as consumer:
        games.append({"kind": "won", "player": "ada"})
        for delivery in consumer:
            print(delivery.id, delivery.record.get("player"))
            delivery.ack()
            break
