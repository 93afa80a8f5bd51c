"""Who holds which node."""

import asyncio
import os
import socket
from datetime import timedelta

import echomq


def test_the_leases_name_who_holds_which_node_and_are_gone_with_their_clients(own_server):
    with echomq.Client(own_server.url) as reader, echomq.Client(own_server.url, client_name="one") as one:
        assert reader.nodes() == []
        with echomq.Client(own_server.url) as other:
            minted = [echomq.Id(client.mint()).node for client in (one, other)]
            leases = reader.nodes()
            assert [(lease.node, lease.host, lease.process, lease.client_name) for lease in leases] == [
                (minted[0], socket.gethostname(), str(os.getpid()), "one"),
                (minted[1], socket.gethostname(), str(os.getpid()), ""),
            ]
            assert all(timedelta() < lease.left <= timedelta(seconds=30) for lease in leases)
            members = reader.command("ZRANGE", "{emq}:nodes", "0", "-1")
            assert sorted(members) == sorted(f"{lease.node}:{lease.owner}".encode() for lease in leases)
            assert repr(leases[0]).startswith(f"NodeLease(node={minted[0]}, owner='{leases[0].owner}', left=")
        assert [lease.node for lease in reader.nodes()] == minted[:1]

        async def asked():
            async with echomq.aio.Client(own_server.url) as client:
                return [lease.owner for lease in await client.nodes()]

        assert asyncio.run(asked()) == [leases[0].owner]
