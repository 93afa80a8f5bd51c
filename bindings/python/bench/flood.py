"""Publishes what others hear: in pipelines that are packed beforehand, from the first line that it reads."""

import socket
import sys

BATCH = 1_000

port, channel, payload, count = sys.argv[1:]
parts = [b"PUBLISH", channel.encode(), payload.encode()]
batch = (b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)) * BATCH
with socket.create_connection(("127.0.0.1", int(port))) as connection:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(count) // BATCH):
        connection.sendall(batch)
        unread = BATCH * len(b":1\r\n")
        while unread:
            unread -= len(connection.recv(unread))
