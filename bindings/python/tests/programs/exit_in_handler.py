"""Uses a client while the interpreter ends."""

import atexit
import sys

import echomq

client = echomq.Client(sys.argv[1], node_id=7)


@atexit.register
def last():
    print(client.command("PING"), client.close())
