"""Pocket's selector, implemented as a gateway with a cache of expiring keys.

It imports nothing of `oracle`, so that the rules are implemented twice. See
docs/explanation/pocket.md.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

Seen = tuple[str, int, float, float, float, bool, int]


def round_to_five_digits(x: float) -> float:
    return float(Fraction(floor(Fraction(x) * 10**5 + Fraction(1, 2)), 10**5))


def at_quantile(ascending: list[float], q: float) -> float:
    place = (len(ascending) - 1) * q
    low = floor(place)
    fraction = place - floor(place)
    if low + 1 < len(ascending):
        return ascending[low] + fraction * (ascending[low + 1] - ascending[low])
    return ascending[low]


@dataclass
class Gateway:
    """A gateway; with `is_head`, it has the bugs of portal-api's last version."""

    is_head: bool
    cache: dict[str, tuple[Any, float]] = field(default_factory=dict)

    def get(self, key: str, now: float) -> Any:
        value, until = self.cache.get(key, (None, 0))
        return value if now < until else None

    def put(self, key: str, value: Any, until: float) -> None:
        self.cache[key] = (value, until)

    def relayed(self, node: str, seconds: float | None, now: float) -> None:
        """Record the end of an attempt: a success after `seconds`, or a failure."""
        timings = self.get(f"{node} timings", now)
        if timings is None:
            timings = []
            self.put(f"{node} timings", timings, now + 300)
        if seconds is not None:
            timings.append(seconds)
            timings.sort()
            if len(timings) > 500:
                timings[:] = [t for n, t in enumerate(timings) if n % 2 == 0]
        log = self.get(f"{node} log", now)
        if log is None:
            start = 0.0 if seconds is None else round_to_five_digits(seconds)
            log = {"good": 0, "bad": 0, "median": start, "weighted": start}
            is_first = True
        else:
            is_first = False
        log["bad" if seconds is None else "good"] += 1
        if seconds is not None and not is_first:
            self._measure(log, timings)
        self.put(f"{node} log", log, now + 300)

    def _measure(self, log: dict[str, Any], timings: list[float]) -> None:
        median = at_quantile(timings, 0.5)
        p90 = at_quantile(timings, 0.9)
        log["median"] = log["weighted"] = round_to_five_digits(median)
        if log["good"] + log["bad"] > 20:
            log["weighted"] = round_to_five_digits(median + 0.3 * p90)

    def compute_stats(self, node: str, now: float) -> dict[str, Any]:
        log = self.get(f"{node} log", now)
        failing = self.get(f"{node} failing", now) == "true"
        stats = {"node": node, "n": 0, "rate": 1.0, "median": 0.0, "weighted": 0.0}
        if log is not None:
            stats["n"] = log["good"] + log["bad"]
            if log["good"] == 0:
                stats["rate"] = 1.0 if self.is_head else 0.0
            else:
                if failing:
                    failing = False
                    self.put(f"{node} failing", "false", now + 7200)
                stats |= {"rate": log["good"] / stats["n"], "median": log["median"]}
                stats["weighted"] = log["weighted"]
        return stats | {"failing": failing}

    def picks(self, nodes: list[str], now: float) -> list[Seen]:
        """Rank the nodes: name, attempts, rate, median, weighted, failing, tickets."""
        logs = [self.compute_stats(node, now) for node in nodes]
        logs.sort(key=lambda log: log["weighted"])
        factor, before, picked = 10, 0.0, []
        for log in logs:
            if before > 0 and log["median"] > 0.15:
                gap = log["weighted"] - max(before, 0.15)
                if gap != 0:
                    factor -= floor(Fraction(gap * 35) + Fraction(1, 2))
                    if factor <= 0:
                        factor = 0 if log["n"] >= 50 else 1
            before = log["weighted"]
            picked.append((*log.values(), self._tickets(log, factor, now)))
        return picked

    def _tickets(self, log: dict[str, Any], factor: int, now: float) -> int:
        if not log["failing"]:
            if log["rate"] > 0.95:
                return factor
            if log["rate"] > 0:
                return 1
        if log["n"] < 50:
            return 1
        if not log["failing"]:
            self.put(f"{log['node']} failing", "true", now + 300)
        return 0
