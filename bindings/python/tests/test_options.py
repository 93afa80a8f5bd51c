"""Options reach the core as they are given, in every form."""

from datetime import timedelta
from pathlib import Path

import echomq
import pytest


def shown(plain, name):
    """What the server tells of the connection of that name."""
    [row] = [row for row in plain.client_list().decode().splitlines() if f" name={name} " in row]
    return dict(member.split("=", 1) for member in row.split())


def test_options_take_effect(url, plain):
    with echomq.Client(url, client_name="named", database=3, protocol="2", node_id=9) as client:
        row = shown(plain, "named")
        assert (row["db"], row["resp"]) == ("3", "2")
        assert echomq.Id(client.mint()).node == 9
    with echomq.Client(f"{url}/4?client_name=in-the-url&node_id=10") as client:
        row = shown(plain, "in-the-url")
        assert (row["db"], row["resp"]) == ("4", "3")
        assert echomq.Id(client.mint()).node == 10


def test_the_node_id_may_come_from_the_environment(url, monkeypatch):
    monkeypatch.setenv("ECHOMQ_NODE_ID", "12")
    with echomq.Client(url) as client:
        assert echomq.Id(client.mint()).node == 12
    with echomq.Client(url, node_id=13) as client:
        assert echomq.Id(client.mint()).node == 13
    monkeypatch.setenv("ECHOMQ_NODE_ID", "twelve")
    with pytest.raises(echomq.InvalidOptionError):
        echomq.Client(url)


def test_none_leaves_an_option_out(url, monkeypatch):
    monkeypatch.setenv("ECHOMQ_NODE_ID", "12")
    with echomq.Client(url, node_id=None, password=None, timeout=None) as client:
        assert echomq.Id(client.mint()).node == 12


@pytest.mark.parametrize("timeout", [50, "50", timedelta(milliseconds=50), timedelta(microseconds=50_999)])
def test_durations_in_every_form(own_server, timeout):
    with echomq.Client(own_server.url, timeout=timeout) as client:
        own_server.pause()
        with pytest.raises((echomq.UnknownOutcomeError, echomq.TimeoutError)):
            client.command("PING")


def test_a_duration_below_a_millisecond_is_refused(url):
    for value in (timedelta(microseconds=999), timedelta(seconds=-1)):
        with pytest.raises(echomq.InvalidOptionError) as caught:
            echomq.Client(url, timeout=value)
        assert caught.value.subject == "timeout"


def test_a_clock_that_stands_still_pins_ids(url, name):
    with echomq.Client(url, node_id=3, clock=1_735_689_600_001) as client:
        assert client.stream("tests", name).append({"k": "v"}) == "EVT09nSpDrfawy"


def test_the_bound_of_a_record(url, name):
    with echomq.Client(url, node_id=7, max_record_bytes=10) as client:
        stream = client.stream("tests", name)
        stream.append({"12345": "67890"})
        with pytest.raises(echomq.TooLargeError):
            stream.append({"12345": "67890x"})


def test_files_for_tls_are_text_or_paths(url):
    for file in ("/no/such/file.pem", Path("/no/such/file.pem")):
        with pytest.raises(echomq.TlsError, match="file"):
            echomq.Client(url.replace("redis://", "rediss://"), tls_ca=file)
        with pytest.raises(echomq.InvalidOptionError, match="TLS"):
            echomq.Client(url, tls_ca=file)
