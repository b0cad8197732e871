"""A bad node and its neighbours, and what leads up to its kickout."""

from tests.contracts.oracle_driver import LIMITS, Oracle, address, full

DELAY, WINDOW, ROUNDS = LIMITS["vetoDelay"], LIMITS["kickWindow"], LIMITS["kickRounds"]
BAD, GOOD = 2_001, 2_002  # the lanes on both sides of the threshold of 2000
WHY = b"appeal".ljust(32, b"\0")
# What an execution says where a plain network carries it out.
KICKED = ["KickExecuted", "KickedOut"]


def worded(oracle: Oracle, first: int = BAD) -> Oracle:
    """One more round: node 0 has this lane, 1 is good enough, 2 not to be selected, 4 bad."""
    oracle.reported((0, full(first, GOOD, 1, l4=2)))
    return oracle


def pending(oracle: Oracle, who: int | str = 0) -> bool:
    """A kickout of it is proposed and can still be executed."""
    return bool(oracle.read("isKickPending", address(who)))


def ready(oracle: Oracle) -> None:
    """Node 0 is proposed, and everything that must come after it has come."""
    oracle.propose(0)
    for _ in range(ROUNDS):
        worded(oracle)
    oracle.chain.later(DELAY)
    oracle.chain.mine()
