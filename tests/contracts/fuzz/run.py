"""Calls the oracle's contracts at random, and checks model and invariants after each call.

Run: .venv/bin/python tests/contracts/fuzz/run.py [--calls 100000] [--seed 1]
Exit code 1: something does not hold; a short way to it is printed. The same seed makes the same
calls again.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.contracts.fuzz.roots.walk import RootsWalk  # noqa: E402
from tests.contracts.fuzz.shrinking import fault, shortest  # noqa: E402
from tests.support.evm.artifacts import load_artifact  # noqa: E402

# Then another oracle starts, with other limits, on another kind of chain.
CALLS_OF_A_WALK = 500


ARTIFACTS = ("roots/QoSRoots", "roots/QoSWords", "roots/QoSChallenge")
# Errors that no walk can cause: those of OpenZeppelin's EIP712, which need other names or
# versions. NotRegistered is the error of a view, which each reading expects.
UNREACHED = frozenset(
    {"InvalidShortString", "StringTooLong", "EIP712DomainChanged", "NotRegistered"}
)


class Tally:
    """The totals of all walks."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.received: Counter[str] = Counter()

    def add(self, walk: RootsWalk) -> None:
        self.ends += walk.ends
        self.met += walk.met + walk.ends
        self.received += walk.received

    @property
    def calls(self) -> int:
        return self.ends.total()

    @property
    def accepted(self) -> int:
        return sum(count for end, count in self.ends.items() if end.endswith(": done"))

    def missing(self) -> list[str]:
        """Return the errors and events of the contracts that no call caused."""
        parts = [part for name in ARTIFACTS for part in load_artifact(name)["abi"]]
        kinds = {"error": self.met, "event": self.received}
        return sorted(
            {
                part["name"]
                for part in parts
                if part["type"] in kinds
                and part["name"] not in UNREACHED
                and not kinds[part["type"]][part["name"]]
            }
        )


def run_walks(seed: int, calls: int) -> Tally:
    """Make this number of calls, in walks of CALLS_OF_A_WALK.

    Raises:
        AssertionError: something does not hold; seed, walk, and the shortest way to it are in it.
    """
    tally = Tally()
    number = 0
    while tally.calls < calls:
        walk = RootsWalk(seed, number)
        try:
            walk.run(min(CALLS_OF_A_WALK, calls - tally.calls))
        except AssertionError as error:
            head = f"seed {seed}, walk {number}, step {len(walk.steps)}: {error}"
            make_walk = partial(RootsWalk, seed, number)
            raise AssertionError(_describe_fault(head, make_walk, walk, error)) from error
        tally.add(walk)
        number += 1
    return tally


def _describe_fault(
    head: str,
    make_walk: Callable[[], RootsWalk],
    walk: RootsWalk,
    error: AssertionError,
) -> str:
    steps = shortest(make_walk, walk.steps)
    end = fault(make_walk, steps)
    reason = end[0] if end else str(error)
    return "\n".join((head, f"the shortest way to a fault ({reason}):", *map(str, steps)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Call the oracle's contracts at random.")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started_at = time.perf_counter()
    try:
        tally = run_walks(arguments.seed, arguments.calls)
    except AssertionError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    seconds = time.perf_counter() - started_at
    for end, count in sorted(tally.ends.items(), key=lambda pair: -pair[1]):
        sys.stdout.write(f"{count:>9,}  {end}\n")
    sys.stdout.write(
        f"{tally.calls:,} calls, {tally.accepted:,} of them accepted, in {seconds:.0f} s; "
        f"not come to: {', '.join(tally.missing()) or 'nothing'}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
