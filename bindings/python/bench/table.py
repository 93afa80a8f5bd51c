"""Rates, their tables, and the aims."""

import statistics

OURS = "echomq"

# group, what counts as peer (none: the best one), how many times its rate
AIMS = [
    ("append, one caller", None, 1.3),
    ("append, 8 threads", None, 5.0),
    ("batch of 1000", "redis-py", 2.5),
    ("asyncio, 1 in flight", "redis.asyncio", 1.0),
    ("asyncio, 100 in flight", "redis.asyncio", 6.0),
    ("asyncio, 100 in flight", "valkey-glide", 2.0),
    ("consume, waiting", "redis-py", 2.0),
    ("consume, asyncio", "redis.asyncio", 2.0),
    ("publish, one caller", "redis-py", 1.5),
    ("publish, asyncio, 100 in flight", "redis.asyncio", 1.5),
    ("hear, waiting", "redis-py", 1.5),
    ("hear, asyncio", "redis.asyncio", 1.5),
]


class Rates:
    """Records a second, by group and contender, one for each round."""

    def __init__(self):
        self._rates = {}

    def add(self, group, contender, count, seconds):
        self._rates.setdefault(group, {}).setdefault(contender, []).append(count / seconds)

    def tables(self, rounds):
        """The rates and the aims, as Markdown."""
        lines = [f"# Python, {rounds} rounds", "", "Records a second.", ""]
        lines += ["| what | client | min | median | max |", "|---|---|---:|---:|---:|"]
        for group, contenders in self._rates.items():
            for contender, rates in contenders.items():
                found = (min(rates), statistics.median(rates), max(rates))
                lines.append(f"| {group} | {contender} | " + " | ".join(f"{rate:,.0f}" for rate in found) + " |")
        lines += [
            "",
            "| what | beside | ratio of medians | lowest, highest of a round | aim | |",
            "|---|---|---:|---|---:|---|",
        ]
        lines += [line for aim in AIMS for line in self._aim(*aim)]
        return "\n".join(lines) + "\n"

    def _aim(self, group, peer, aim):
        contenders = self._rates.get(group)
        if not contenders:
            return
        medians = {contender: statistics.median(rates) for contender, rates in contenders.items()}
        # A peer may be measured in several settings: the fastest one counts.
        peers = [name for name in medians if name != OURS and (peer is None or name.split(",")[0] == peer)]
        best = max(peers, key=medians.__getitem__)
        ratio = medians[OURS] / medians[best]
        each = [ours / theirs for ours, theirs in zip(contenders[OURS], contenders[best], strict=True)]
        verdict = "met" if ratio >= aim else "missed"
        yield f"| {group} | {best} | {ratio:.2f} | {min(each):.2f}, {max(each):.2f} | {aim:.1f} | {verdict} |"
