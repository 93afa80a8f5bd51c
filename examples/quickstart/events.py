import os

import echomq

url = os.environ.get("ECHOMQ_URL", "redis://localhost:6379")
with echomq.Client(url) as client:
    events = client.events("codemojex")
    games = client.stream("codemojex", "games")

    with events.listen() as listener:
        subscriber = listener.subscribe()

        # The stream remembers the record; whoever listens hears at once where it is.
        won = {"kind": "won", "player": "ada"}
        events.append_and_publish("games", won, "completed", "JOB000xY9Wvvcd")

        for heard in subscriber:
            # After a gap, too, the stream is read from the last id that is known.
            if isinstance(heard, echomq.EventGap):
                continue
            for record in games.read(heard.get("id"), "+"):
                print(record.id, record.get("player"))
            break
