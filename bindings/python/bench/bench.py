"""Measures the Python face beside its peers, all in one process and in turns, and compares ratios with the aims.

Only ratios within one run mean anything: every round measures every contender once, in the same order, and a ratio is
one of medians.
"""

import argparse
import asyncio
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER / "python"), str(FOLDER / "tests" / "support")]

import asynchronous  # noqa: E402
import draining  # noqa: E402
import latency  # noqa: E402
import lifecycle  # noqa: E402
import table  # noqa: E402
import waiting_calls  # noqa: E402
from server import Server  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="two small rounds, to see that it works")
    parser.add_argument("--rounds", type=int, help="how many rounds (7, and 2 with --short)")
    parser.add_argument("--only", default="", help="only groups with this text in their names")
    parser.add_argument("--output", type=Path, help="a file to write the tables to as well")
    return parser.parse_args()


def main():
    given = options()
    rounds = given.rounds or (2 if given.short else 7)
    size = 1 if given.short else 10
    rates = table.Rates()
    server = Server()
    try:
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            waiting_calls.measure(server, rates, size, given.only)
            asyncio.run(asynchronous.measure(server, rates, size, given.only))
            draining.measure(server, rates, size, given.only)
            lifecycle.measure(server, rates, size, given.only)
        text = rates.tables(rounds)
        if given.only in "latency":
            text += latency.tables(server, short=given.short)
    finally:
        server.stop()
    print(text)
    if given.output:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(text, encoding="utf-8")


main()
