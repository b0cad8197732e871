"""The models of kickouts, which commands, pages and the read API share."""

from collections.abc import Iterator, Sequence

from pydantic import Field

from oracle.bindings.qos_roots import KickBucket
from oracle.domain.reports.lanes import decode_qos
from oracle.domain.reports.node_kicks import NEVER_EXPIRES, NO_TARGET, KickState, NodeKick
from oracle.kickouts.kickout_cases import KickoutCase
from oracle.queries.answers import (
    AddressText,
    ApiModel,
    FixedPoint,
    HashText,
    LogPlace,
    load_event_sources,
)
from oracle.store.database import UnitOfWork


class ContractKickout(ApiModel):
    """The state of a node's kickout in the oracle contract."""

    state: str = Field(examples=["accused", "vetoed", "expelled"])
    round: int = Field(description="Round of the newest accusation, execution or retry; 0: none.")
    due_since: int | None = Field(
        description="Start of the accused interval, unix seconds; null if never accused."
    )
    evidence: HashText | None = Field(
        description="Keccak-256 of the scores behind the accusation; null if never accused."
    )
    ready_at: int | None = Field(description="Time from which it may be executed, unix seconds.")
    expelled_until: int | None = Field(
        description=f"Unix seconds; {NEVER_EXPIRES}: for good; null if never expelled."
    )
    reason: str | None = Field(
        description="Revert data of the network, which refused the kickout, as hex."
    )


class NodeKickout(ContractKickout):
    """A node, and the state of its kickout in the oracle contract."""

    node: AddressText


class KickoutRecord(NodeKickout):
    """A kickout in the contract, and its outcome."""

    accused_at: LogPlace | None
    executed_at: LogPlace | None


class KickoutEntry(ApiModel):
    """A node whose kickout is due or accused."""

    node: AddressText
    due_since: LogPlace | None = Field(description="null if it is no longer due.")
    on_chain: ContractKickout | None = Field(description="null if it was never accused.")


class KickoutCaseEntry(KickoutEntry):
    """A node in `kickout list`: its leaf in the last round, and why it is not accused, if so."""

    stated_since: int | None = Field(
        description="Since when the last round states that a kickout is due, unix seconds; null "
        "if it does not."
    )
    qos: FixedPoint | None = Field(description="In the last round; null if it is not selectable.")
    obstacle: str | None = Field(description="Why it cannot be accused now; null if it can.")
    held: str | None = Field(description="Why only the vetoer can allow it.")


class KickoutList(ApiModel):
    """The answer of `kickout list`."""

    kickouts: list[KickoutCaseEntry]
    bucket: KickBucket | None = Field(description="null if the chain was not queried.")


class KickoutResult(KickoutCaseEntry):
    """The result of `kickout accuse`, `execute` or `clear`, or of a dry run of these commands."""

    dry_run: bool
    steps: list[str]


class VetoerCall(ApiModel):
    """The call that the vetoer has to send, which `kickout allow` and `kickout veto` print."""

    node: AddressText
    vetoer: AddressText
    to: AddressText
    calldata: str = Field(description="The call's data as hex.")


class ExpulsionEntry(ApiModel):
    """A node that the oracle has expelled, as a row of `kickout export`."""

    node: AddressText
    evidence: HashText | None
    round: int
    block: int
    until: int = Field(description="Unix seconds; 1099511627775: forever.")
    network: str = Field(
        description="Whether the network ended the membership; nobody: not requested.",
        examples=["nobody", "done", "refused"],
    )


NOT_DUE = "not due"


def build_contract_kickout(kick: NodeKick) -> ContractKickout:
    """Return the view of a kickout that is stored in the contract."""
    accusation, expulsion = kick.accusation, kick.expulsion
    return ContractKickout(
        state=kick.state.value,
        round=kick.last_round,
        due_since=None if accusation is None else accusation.due_since,
        evidence=None if accusation is None else accusation.evidence,
        ready_at=None if accusation is None else accusation.ready_at,
        expelled_until=None if expulsion is None else expulsion.expires_at,
        reason=None if expulsion is None or not expulsion.refusals else expulsion.reason,
    )


def build_node_kickout(kick: NodeKick) -> NodeKickout:
    return NodeKickout(node=kick.node, **dict(build_contract_kickout(kick)))


def build_kickout_case_entries(
    uow: UnitOfWork, cases: Sequence[KickoutCase]
) -> list[KickoutCaseEntry]:
    """Return the entries of nodes whose kickout is due or accused."""
    intervals = [case.interval for case in cases if case.interval is not None]
    log_place_by_position = load_event_sources(uow, (interval.opened_at for interval in intervals))
    return [
        KickoutCaseEntry(
            node=case.node,
            due_since=None
            if case.interval is None
            else log_place_by_position[case.interval.opened_at],
            on_chain=None if case.kick is None else build_contract_kickout(case.kick),
            stated_since=case.due_since or None,
            qos=None if case.proof is None else decode_qos(case.proof.leaf.lane),
            obstacle=case.obstacle,
            held=case.hold_reason,
        )
        for case in cases
    ]


def build_expulsion_entries(kicks: Sequence[NodeKick], min_block: int) -> Iterator[ExpulsionEntry]:
    """Yield the row of each expulsion from block `min_block` on, oldest first."""
    expelled = [(kick, kick.expulsion) for kick in kicks if kick.expulsion is not None]
    for kick, expulsion in sorted(expelled, key=lambda pair: (pair[1].at, pair[0].node)):
        if expulsion.at.block >= min_block:
            network_outcome = "nobody" if expulsion.target == NO_TARGET else "done"
            yield ExpulsionEntry(
                node=kick.node,
                evidence=None if kick.accusation is None else kick.accusation.evidence,
                round=expulsion.round,
                block=expulsion.at.block,
                until=expulsion.expires_at,
                network="refused" if kick.state is KickState.REFUSED else network_outcome,
            )
