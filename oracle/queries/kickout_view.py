"""Answers about kickouts: proposals, cases with their obstacles, and expulsions."""

from collections.abc import Iterator, Sequence

from oracle.domain.reports.kicks import NO_TARGET, Kick, KickState
from oracle.kickouts.kickout_eligibility import KickoutCase
from oracle.queries.kickout_models import (
    ExpulsionEntry,
    KickoutCaseEntry,
    NodeProposal,
    ProposedKickout,
)
from oracle.queries.log_places import load_log_places
from oracle.store.database import UnitOfWork

NOT_DUE = "not due"


def build_proposed_kickout(kick: Kick) -> ProposedKickout:
    """Return the answer for a proposal."""
    expulsion = kick.expulsion
    return ProposedKickout(
        state=kick.state.value,
        round=kick.round,
        evidence=kick.evidence,
        ready_at=kick.ready_at,
        dies_at=kick.dies_at,
        reason=None if expulsion is None or not expulsion.refusals else expulsion.reason,
    )


def build_node_proposal(kick: Kick) -> NodeProposal:
    """Return the answer for a proposal, with its node."""
    return NodeProposal(node=kick.node, **dict(build_proposed_kickout(kick)))


def build_kickout_cases(
    uow: UnitOfWork, cases: Sequence[KickoutCase], kicks_not_due: Sequence[Kick] = ()
) -> list[KickoutCaseEntry]:
    """Return the entries of nodes whose kickout is due, then those of `kicks_not_due`.

    `kicks_not_due`: live proposals for nodes whose kickout is no longer due.
    """
    place_by_position = load_log_places(uow, (case.interval.opened_at for case in cases))
    due_entries = [
        KickoutCaseEntry(
            node=case.node,
            due_since=place_by_position[case.interval.opened_at],
            proposal=None if case.kick is None else build_proposed_kickout(case.kick),
            index=case.index,
            lane=case.lane,
            evidence=None if case.evidence is None else case.evidence.hash,
            creators=None if case.evidence is None else case.evidence.spread.creators,
            rounds_low=case.low_rounds,
            obstacle=case.obstacle,
            held=case.hold_reason,
        )
        for case in cases
    ]
    return due_entries + [
        KickoutCaseEntry(
            node=kick.node,
            due_since=None,
            proposal=build_proposed_kickout(kick),
            index=None,
            lane=None,
            evidence=None,
            creators=None,
            rounds_low=None,
            obstacle=NOT_DUE,
            held=None,
        )
        for kick in kicks_not_due
    ]


def build_expulsion_entries(kicks: Sequence[Kick], min_block: int) -> Iterator[ExpulsionEntry]:
    """Yield the answer for each expulsion from block `min_block` on, oldest first."""
    expelled = [(kick, kick.expulsion) for kick in kicks if kick.expulsion is not None]
    for kick, expulsion in sorted(expelled, key=lambda pair: (pair[1].at, pair[0].node)):
        if expulsion.at.block >= min_block:
            network_outcome = "nobody" if expulsion.target == NO_TARGET else "done"
            yield ExpulsionEntry(
                node=kick.node,
                evidence=kick.evidence,
                round=expulsion.round,
                block=expulsion.at.block,
                until=expulsion.expires_at,
                network="refused" if kick.state is KickState.REFUSED else network_outcome,
            )
