"""A bad node and its neighbours, and what leads up to its kickout."""

from tests.contracts.oracle_driver import LIMITS, Oracle, word

DELAY, WINDOW, ROUNDS = LIMITS["vetoDelay"], LIMITS["kickWindow"], LIMITS["kickRounds"]
BAD, GOOD = 2_001, 2_002  # the lanes on both sides of the threshold of 2000
WHY = b"appeal".ljust(32, b"\0")


def worded(oracle: Oracle, first: int = BAD) -> Oracle:
    """One more round: node 0 has this lane, 1 is good enough, 2 not to be selected, 3 unknown."""
    oracle.reported((0, word(first, GOOD, 1, 0, 2, 2, 2)))
    return oracle


def ready(oracle: Oracle) -> None:
    """Node 0 is proposed, and everything that must come after it has come."""
    oracle.propose(0)
    for _ in range(ROUNDS):
        worded(oracle)
    oracle.chain.later(DELAY)
    oracle.chain.mine()
