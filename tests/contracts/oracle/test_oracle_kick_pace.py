"""Kickouts where rounds are quick and signers slow: no statement is overtaken by new rounds."""

import pytest

from tests.contracts.oracle_driver import LIMITS, Oracle, deployed, node
from tests.contracts.oracle_signing import SIGNERS, Kick, word
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

DUE, BETWEEN_ROUNDS, BETWEEN_SIGNATURES = 20, 6, 5
LANES = [(0, word(*[1] * 16)), (1, word(1, 1, 1, 1, *[9_002] * 12)), (2, word(*[9_002] * 8))]


@pytest.fixture
def quick(chain: Chain) -> Oracle:
    """Forty nodes, half of them low; three of three signers must sign."""
    limits = LIMITS | {"minInterval": BETWEEN_ROUNDS, "maxKicksPerRound": 10}
    oracle = deployed(chain, quorum=3, limits=limits)
    oracle.registered(40, 9_002, signers=SIGNERS)
    rounds(oracle, 1)
    return oracle


def rounds(oracle: Oracle, count: int) -> None:
    """So many rounds more, six seconds apart."""
    for _ in range(count):
        oracle.reported(*LANES, signers=SIGNERS)


def test_twenty_low_scored_nodes_are_all_proposed_within_three_rounds(quick: Oracle):
    """Three reporters sign on the round they see, five seconds one after the other."""
    first, begun = quick.round, quick.chain.time
    statements = [stated(quick, who) for who in range(DUE)]
    # The last reporter has signed two rounds later: fifteen seconds have passed.
    rounds(quick, 2)
    assert quick.chain.time - begun <= 3 * BETWEEN_SIGNATURES
    for kick in statements[:10]:
        assert sent(quick, kick) == ["KickProposed"]
    with pytest.raises(RevertedError, match=r"KickLimit\(10\)"):
        sent(quick, statements[10])
    rounds(quick, 1)
    for kick in statements[10:]:
        assert sent(quick, kick) == ["KickProposed"]
    assert quick.round - first <= 3
    assert all(quick.read("isKickPending", node(who)) for who in range(DUE))


def stated(oracle: Oracle, who: int) -> Kick:
    """What all three sign, whenever each of them comes to it."""
    return Kick(
        config=bytes(oracle.read("configDigest")),
        round=oracle.round,
        report=bytes(oracle.read("lastReport")),
        node=node(who),
        evidence=bytes([who + 1]) * 32,
        deadline=oracle.chain.time + 600,
        domain=oracle.domain,
    )


def sent(oracle: Oracle, kick: Kick) -> list[str]:
    arguments = (kick.round, kick.report, kick.node, kick.evidence, kick.deadline)
    return oracle.do("proposeKick", *arguments, kick.signed_by(*SIGNERS)).names
