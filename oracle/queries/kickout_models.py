"""Kickouts: one model for `kickout`, `status`, the pages of a node, and `/v1/kickouts`."""

from collections.abc import Iterator, Sequence

from pydantic import Field

from oracle.bindings.qos_roots import KickBucket
from oracle.domain.reports.expulsions import NO_TARGET
from oracle.domain.reports.kicks import Kick, KickState
from oracle.kickouts.kickout_eligibility import KickoutCase
from oracle.queries.answers import AddressText, ApiModel, HashText, LogPlace, load_event_sources
from oracle.store.database import UnitOfWork


class ProposedKickout(ApiModel):
    """The newest kickout of a node that was proposed on chain."""

    state: str = Field(examples=["live", "vetoed", "executed"])
    round: int
    evidence: HashText
    ready_at: int = Field(description="Time from which it may be executed, unix seconds.")
    dies_at: int
    reason: str | None = Field(
        description="Revert data of the network, which refused the kickout, as hex."
    )


class NodeProposal(ProposedKickout):
    """The newest kickout of a node that was proposed on chain, with the node."""

    node: AddressText


class ProposalEntry(NodeProposal):
    """A proposed kickout and its outcome."""

    proposed_at: LogPlace
    executed_at: LogPlace | None
    expelled_until: int | None = Field(description="Unix seconds.")


class KickoutEntry(ApiModel):
    """A node whose kickout is due or proposed."""

    node: AddressText
    due_since: LogPlace | None = Field(description="null: it is not due any more.")
    proposal: ProposedKickout | None = Field(description="null: none was ever proposed.")


class KickoutCaseEntry(KickoutEntry):
    """A node of `kickout list`, with the obstacle to proposing its kickout, if any."""

    index: int | None = Field(description="Index of the node in the contract; null: it has none.")
    lane: int | None = Field(description="Lane of the node in the contract.")
    evidence: HashText | None = Field(description="SHA-256 of the evidence that makes it due.")
    creators: int | None = Field(description="Number of creators of the tasks in the evidence.")
    rounds_low: int | None = Field(
        description="Number of consecutive newest rounds that showed the node below the threshold."
    )
    obstacle: str | None = Field(description="Why it cannot be proposed now; null: it can.")
    held: str | None = Field(description="Why an operator has to propose it.")


class KickoutList(ApiModel):
    """The answer of `kickout list`."""

    kickouts: list[KickoutCaseEntry]
    bucket: KickBucket | None = Field(description="null: the chain was not queried.")


class KickoutResult(KickoutCaseEntry):
    """The result of `kickout propose` and `kickout execute`, or of a dry run of them."""

    dry_run: bool
    contract_says: str | None = Field(description="Result of the simulated call in a dry run.")
    steps: list[str]


class KickoutCancellation(ApiModel):
    """The result of `kickout cancel`, or of a dry run of it."""

    node: AddressText
    not_sent: list[int] = Field(description="Calls of the outbox that will not be sent.")
    contract_says: str
    steps: list[str]
    dry_run: bool


class ExpulsionEntry(ApiModel):
    """A node that the oracle has expelled: a row of `kickout export`."""

    node: AddressText
    evidence: HashText
    round: int
    block: int
    until: int = Field(description="Unix seconds; 1099511627775: forever.")
    network: str = Field(
        description="Whether the network ended the membership; nobody: not requested.",
        examples=["nobody", "done", "refused"],
    )


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
    return NodeProposal(node=kick.node, **dict(build_proposed_kickout(kick)))


def build_kickout_cases(
    uow: UnitOfWork, cases: Sequence[KickoutCase], kicks_not_due: Sequence[Kick] = ()
) -> list[KickoutCaseEntry]:
    """Return the entries of nodes whose kickout is due, then those of `kicks_not_due`.

    `kicks_not_due` are live proposals for nodes whose kickout is no longer due.
    """
    place_by_position = load_event_sources(uow, (case.interval.opened_at for case in cases))
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
