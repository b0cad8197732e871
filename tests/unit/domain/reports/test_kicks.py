"""What became of a kickout, by the contract's own events."""

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    VETOER,
    ConfigSet,
    ContractEvent,
    IndexReuse,
    KickCancelled,
    KickExecuted,
    KickLimitsSet,
    KickProposed,
    KickRefused,
    NodeExpelled,
    NodeReadmitted,
    Registrations,
    RoleSet,
)
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.expulsions import NEVER_EXPIRES, NO_TARGET, Expulsion
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.rounds import Rounds
from tests.support.rounds import accepted, address, registered, take

NODE, NETWORK, VETO = address(0xA), address(0xB), address(0xC)
PROOF, BUSY, POOR = (Hash(f"0x{one * 64}") for one in "123")


class Told:
    """Says the contract's events one after the other, a block each."""

    def __init__(self) -> None:
        self.rounds = registered(NODE, words={0: 1})
        self.block = 1
        self._say(RoleSet(self.at, self.block, VETOER, VETO))

    @property
    def at(self) -> Position:
        return Position(self.block, 0, 0)

    @property
    def kick(self) -> Kick:
        return self.rounds.kicks[NODE]

    @property
    def gone(self) -> Expulsion:
        expulsion = self.kick.expulsion
        assert expulsion is not None
        return expulsion

    def _say(self, event: ContractEvent) -> "Told":
        self.rounds.fold_block(self.block, [event], journal=False)
        self.block += 1
        return self

    def proposed(self) -> "Told":
        return self._say(
            KickProposed(self.at, self.block, NODE, 1, PROOF, ready_at=100, dies_at=200)
        )

    def executed(self, target=NETWORK) -> "Told":
        return self._say(KickExecuted(self.at, self.block, NODE, PROOF, target))

    def refused(self, reason: Hash) -> "Told":
        """A try, and the network's answer."""
        return self.executed()._say(KickRefused(self.at, self.block, NODE, NETWORK, reason))

    def other(self, event: type, *values) -> "Told":
        return self._say(event(self.at, self.block, *values))


def test_executed_kick_expels_node_permanently():
    kick_history = Told().proposed().executed()

    assert kick_history.kick.state is KickState.EXECUTED
    assert kick_history.kick.is_expelled(NEVER_EXPIRES - 1)
    assert kick_history.kick.evidence == PROOF


def test_expulsion_ends_after_cooldown():
    kick_history = Told().other(KickLimitsSet, 50).proposed().executed()
    over = kick_history.block - 1 + 50

    assert kick_history.kick.is_expelled(over - 1)
    assert not kick_history.kick.is_expelled(over)


def test_executed_kick_without_target_still_expels_node():
    kick_history = Told().proposed().executed(target=NO_TARGET)

    assert kick_history.kick.state is KickState.EXECUTED
    assert kick_history.gone.target == NO_TARGET


def test_kick_refused_by_network_leaves_node_expelled():
    kick_history = Told().proposed().refused(BUSY)

    assert kick_history.kick.state is KickState.REFUSED
    assert kick_history.kick.is_expelled(10**9)
    assert (kick_history.gone.refusals, kick_history.gone.reason) == (1, BUSY)


@pytest.mark.parametrize(
    ("reasons", "is_settled"),
    [
        ([BUSY], False),
        ([BUSY, BUSY], True),
        ([BUSY, POOR], False),
        ([BUSY, POOR, BUSY], False),
        ([BUSY, POOR, POOR], True),
    ],
)
def test_two_consecutive_refusals_with_the_same_reason_require_an_operator(reasons, is_settled):
    kick_history = Told().proposed()
    for reason in reasons:
        kick_history.refused(reason)

    assert kick_history.kick.requires_operator is is_settled


def test_execution_after_refusal_resets_the_consecutive_refusals():
    kick_history = Told().proposed().refused(BUSY).executed().refused(BUSY)

    assert not kick_history.kick.requires_operator


def test_first_execution_position_is_kept_through_retries():
    kick_history = Told().proposed().executed()
    first = kick_history.gone.at
    take(kick_history.rounds, accepted(2, {}))
    kick_history.refused(BUSY)

    gone = kick_history.gone
    assert (gone.at, gone.round) == (first, 1)
    assert (gone.tried_in, gone.tried_at > first) == (2, True)


def test_signer_change_marks_the_proposal_outdated():
    kick_history = Told().proposed().other(ConfigSet, 2, ZERO_HASH)

    assert kick_history.kick.state is KickState.OUTDATED
    assert kick_history.rounds.get_live_kick(NODE) is None


def test_expulsion_survives_signer_change():
    kick_history = Told().proposed().executed().other(ConfigSet, 2, ZERO_HASH)

    assert kick_history.kick.is_expelled(0)


@pytest.mark.parametrize(("who", "state"), [(VETO, KickState.VETOED), (NODE, KickState.CANCELLED)])
def test_cancellation_by_vetoer_marks_kick_vetoed(who, state):
    assert Told().proposed().other(KickCancelled, NODE, who, ZERO_HASH).kick.state is state


def test_only_readmission_ends_expulsion():
    kick_history = Told().proposed().executed()
    kick_history.other(KickCancelled, NODE, VETO, ZERO_HASH)
    assert kick_history.kick.is_expelled(0)

    kick_history.other(NodeReadmitted, NODE)
    assert not kick_history.kick.is_expelled(0)


def test_node_expelled_by_a_previous_oracle_stays_expelled():
    kick_history = Told().other(NodeExpelled, NODE)

    assert kick_history.kick.is_expelled(10**9)


def test_index_reuse_cancels_proposal_of_previous_node():
    kick_history = Told().proposed()
    take(
        kick_history.rounds,
        accepted(2, {0: 5002}, Registrations((IndexReuse(address(1), NODE),), ())),
    )

    assert kick_history.kick.state is KickState.CANCELLED


def test_refusal_of_kick_proposed_before_the_first_indexed_block_expels_the_node():
    rounds = Rounds()
    at = Position(5, 0, 0)
    rounds.fold_block(5, [KickRefused(at, 1, NODE, NETWORK, BUSY)], journal=False)

    gone = rounds.kicks[NODE].expulsion
    assert rounds.kicks[NODE].is_expelled(10**9)
    assert gone is not None
    assert gone.refusals == 1
