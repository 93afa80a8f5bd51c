"""Prints what criterion measured of the pure parts as a table: python3 core/benches/pure.py FOLDER"""

import json
import pathlib
import sys


def rows(folder):
    """Yields what was measured, and the least, middle and greatest nanoseconds that are likely for one run."""
    for file in sorted(pathlib.Path(folder).glob("*/*/new/benchmark.json")):
        benchmark = json.loads(file.read_text())
        median = json.loads(file.with_name("estimates.json").read_text())["median"]
        elements = (benchmark.get("throughput") or {}).get("Elements", 1)
        interval = median["confidence_interval"]
        times = interval["lower_bound"], median["point_estimate"], interval["upper_bound"]
        what = f"{benchmark['group_id']}: {benchmark['function_id']}"
        yield what + (", each" if elements > 1 else ""), [time / elements for time in times]


def main(folder):
    print(f"\n| {'pure part':<70} | {'least':>9} | {'median':>9} | {'most':>9} |")
    print(f"| {'---':<70} | {'--:':>9} | {'--:':>9} | {'--:':>9} |")
    for what, times in rows(folder):
        cells = " | ".join(f"{time:>6.1f} ns" for time in times)
        print(f"| {what:<70} | {cells} |")


main(sys.argv[1])
