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
    round: int = Field(
        description="Round of the newest accusation, execution or retry; 0 if there was none."
    )
    due_since: int | None = Field(
        description=(
            "Time since which the kickout was due according to the newest accusation, in unix "
            "seconds; null if no accusation is indexed."
        )
    )
    evidence: HashText | None = Field(
        description=(
            "Keccak-256 of the scores behind the newest accusation or, once the kickout was "
            "executed, at its execution; null if no accusation is indexed."
        )
    )
    ready_at: int | None = Field(
        description=(
            "Earliest block time at which the newest accusation may be executed, in unix seconds, "
            "also after its execution or cancellation; null if no accusation is indexed."
        )
    )
    expelled_until: int | None = Field(
        description=(
            f"Time until which the newest execution expelled the node, in unix seconds, even if "
            f"it was readmitted since; {NEVER_EXPIRES} if forever; null if it was never expelled."
        )
    )
    reason: str | None = Field(
        description=(
            "Revert data with which the network's contract refused the last call, as hex; null if "
            "it did not refuse that call."
        )
    )


class NodeKickout(ContractKickout):
    """A node, and the state of its kickout in the oracle contract."""

    node: AddressText


class KickoutRecord(NodeKickout):
    """A kickout in the contract, and its outcome."""

    accused_at: LogPlace | None
    executed_at: LogPlace | None


class KickoutEntry(ApiModel):
    """A node that is accused or whose kickout is due."""

    node: AddressText
    due_since: LogPlace | None = Field(
        description="Event since which the kickout is due; null if it is no longer due."
    )
    on_chain: ContractKickout | None = Field(
        description=(
            "State of the kickout in the contract; null if no event of the contract concerns the "
            "node's kickout."
        )
    )


class KickoutCaseEntry(KickoutEntry):
    """A node in `kickout list`: its leaf in the last round, and why it is not accused yet."""

    stated_since: int | None = Field(
        description=(
            "Time since which the kickout is due according to the node's leaf in the last "
            "accepted round, in unix seconds; null if no stored leaf states a kickout."
        )
    )
    qos: FixedPoint | None = Field(
        description=(
            "QoS of the node in the last accepted round; null if the node must not be selected, "
            "or if no leaf of the node is stored."
        )
    )
    obstacle: str | None = Field(
        description="Why the node cannot be accused now; null if it can be accused."
    )
    held: str | None = Field(
        description=(
            "Why the kickout is held, so that only the vetoer can allow it; null if it is not "
            "held."
        )
    )


class KickoutList(ApiModel):
    """The answer of `kickout list`."""

    kickouts: list[KickoutCaseEntry]
    bucket: KickBucket | None = Field(
        description=(
            "The contract's limit of kickouts, as of an endpoint's newest block: `left` of `most` "
            "kickouts remain, and `per_frame` are added every `frame` seconds; null without "
            "`--ask-chain`."
        )
    )


class KickoutResult(KickoutCaseEntry):
    """The result of `kickout accuse`, `execute` or `clear`, or of a dry run of these commands."""

    dry_run: bool
    steps: list[str]


class VetoerCall(ApiModel):
    """A call for the vetoer to send, printed by `kickout allow` and `kickout veto`."""

    node: AddressText
    vetoer: AddressText
    to: AddressText
    calldata: str = Field(description="Data of the call to the contract, as hex.")


class ExpulsionEntry(ApiModel):
    """A node that the oracle expelled, as a row of `kickout export`."""

    node: AddressText
    evidence: HashText | None
    round: int
    block: int
    until: int = Field(
        description=(
            "Time until which the node is expelled, in unix seconds; 1099511627775 if it is "
            "expelled forever."
        )
    )
    network: str = Field(
        description=(
            "Whether the network ended the node's membership: `done`, or `refused`; `nobody`: the "
            "oracle contract had no target to call, or the call is not indexed."
        ),
        examples=["nobody", "done", "refused"],
    )


NOT_DUE = "not due"


def build_contract_kickout(kick: NodeKick) -> ContractKickout:
    """Build the view of a kickout that the contract stores."""
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
    """Build the entries of nodes that are accused or whose kickout is due."""
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
    """Yield a row for each expulsion since block `min_block`, oldest first."""
    kicks_with_expulsion = [(kick, kick.expulsion) for kick in kicks if kick.expulsion is not None]
    for kick, expulsion in sorted(
        kicks_with_expulsion, key=lambda pair: (pair[1].at, pair[0].node)
    ):
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
