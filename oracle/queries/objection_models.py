"""The models of objections, which commands, pages and the read API share."""

from collections.abc import Sequence

from pydantic import Field

from oracle.domain.events.oracle_events import Objected
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import KickoutPolicy, ObjectionTerms
from oracle.domain.reports.node_kicks import EXPELLED_STATES, NodeKick
from oracle.domain.reports.objections import (
    ObjectionCheck,
    ObjectionReason,
    ObjectionVerdict,
    select_effective_objection,
)
from oracle.domain.state import Node
from oracle.kickouts.kickout_cases import load_open_kickout_intervals
from oracle.kickouts.objection_delay import check_objection_against_events, load_objection_delays
from oracle.queries.answers import AddressText, ApiModel, LogPlace, load_event_sources
from oracle.store.database import UnitOfWork
from oracle.store.state.objection_repository import ObjectionAnswer


class AnswerEntry(ApiModel):
    """This reporter's answer to the objections to a kickout."""

    is_accepted: bool
    because: str
    answered_at: int = Field(
        description="Time of the answer by the operator's clock, in unix seconds."
    )
    signer: AddressText | None = Field(
        description="Signer of the answer; null if the answer is not signed."
    )
    signature: str | None = Field(
        description="EIP-712 signature of the answer, 65 bytes as hex; null if it is not signed."
    )


class ObjectionEntry(ApiModel):
    """A node's objection to its kickout, its automatic check, and this reporter's answer."""

    node: AddressText
    seq: int = Field(description="Number of the objection among those of the node, from 0.")
    due_since: int = Field(
        description=(
            "Block time since which the kickout is due, in unix seconds, as stated in the "
            "objection."
        )
    )
    reason: str = Field(description="Reason that the owner selected.", examples=["application"])
    text: str = Field(
        description="Explanation that the owner wrote, up to 280 bytes; treat it as untrusted."
    )
    at: LogPlace
    time: int = Field(description="Block time of the objection, in unix seconds.")
    is_due: bool = Field(description="Whether the kickout is still due.")
    is_executed: bool = Field(description="Whether the kickout was executed on the chain.")
    is_counted: bool = Field(
        description=(
            "Whether the objection may delay this reporter's accusation, because it is the first "
            "one to this kickout that was made in time."
        )
    )
    verdict: str | None = Field(
        description="Result of the automatic check; null if the kickout is no longer due.",
        examples=["refuted", "supported", "open"],
    )
    finding: str | None = Field(
        description=(
            "Explanation of the automatic check's result; null if the kickout is no longer due."
        )
    )
    answer: AnswerEntry | None = Field(
        description=(
            "Answer of this reporter to the objections to this kickout; null if it has not "
            "answered."
        )
    )
    answer_until: int | None = Field(
        description=(
            "Block time until which the operator should answer, in unix seconds; null if the "
            "objection waits for no answer."
        )
    )


class ObjectionDelayEntry(ApiModel):
    """The reason why this reporter delays an accusation: an objection, or time left to object."""

    reason: str
    until: int | None = Field(
        description=(
            "First block time at which the delay is over without an answer, in unix seconds; null "
            "if only the operator's answer ends it, or if the operator accepted the objection."
        )
    )
    objection: int | None = Field(
        description=(
            "Number of the objection that delays the accusation; null if there is none yet and "
            "the owner may still object."
        )
    )
    is_accepted: bool = Field(
        description=(
            "Whether the operator accepted the objection, so that this reporter does not accuse "
            "the node."
        )
    )


class ObjectionAnswered(ApiModel):
    """The result of `objection answer`, or of a dry run."""

    node: AddressText
    due_since: int
    is_accepted: bool
    because: str
    saved: bool


class SignedObjectionAnswer(ApiModel):
    """The output of `objection sign`: a signed objection and the call that submits it."""

    node: AddressText
    due_since: int
    reason: str
    text: str
    seq: int
    deadline: int = Field(
        description="Latest time of a block that may include the objection, in unix seconds."
    )
    signature: str = Field(description="Signature of the objection, 65 bytes as hex.")
    to: AddressText = Field(description="Address of the objections contract.")
    calldata: str = Field(description="Data of the call, as hex. Any account can send this call.")


def build_objection_entries(
    uow: UnitOfWork, objections: Sequence[Objected], policy: KickoutPolicy
) -> list[ObjectionEntry]:
    """Build the entries of objections, in the same order."""
    nodes = {objection.node for objection in objections}
    log_place_by_position = load_event_sources(uow, [objection.at for objection in objections])
    node_by_address = uow.nodes.get_many(nodes)
    due_since_by_node = {node: row.kickout_due_time for node, row in node_by_address.items()}
    intervals = {
        interval.node: interval
        for interval in load_open_kickout_intervals(uow, policy.rules)
        if interval.node in nodes
    }
    answers = {
        (answer.node, answer.due_since): answer for answer in uow.objections.list_answers(nodes)
    }
    all_objections = uow.objections.list_for_nodes(nodes)
    kicks = uow.rounds.get_kick_by_node(nodes)
    entries = []
    for objection in objections:
        node, due_since = objection.node, objection.due_since
        is_due = node in intervals and due_since_by_node.get(node) == due_since
        objection_check = None
        if is_due:
            objection_check = check_objection_against_events(
                uow, policy, intervals[node], objection.reason
            )
        node_objections = [candidate for candidate in all_objections if candidate.node == node]
        answer = answers.get((node, due_since))
        is_counted = (
            policy.objection_terms is not None
            and select_effective_objection(node_objections, due_since, policy.objection_terms)
            == objection
        )
        entries.append(
            ObjectionEntry(
                node=node,
                seq=objection.seq,
                due_since=due_since,
                reason=ObjectionReason.from_number(objection.reason).option,
                text=objection.text,
                at=log_place_by_position[objection.at],
                time=objection.time,
                is_due=is_due,
                is_executed=_is_kickout_executed(kicks.get(node), due_since),
                is_counted=is_counted,
                verdict=None if objection_check is None else objection_check.verdict.value,
                finding=None if objection_check is None else objection_check.finding,
                answer=_build_answer_entry(answer),
                answer_until=_find_answer_deadline(
                    objection, objection_check, policy.objection_terms
                )
                if is_counted and answer is None
                else None,
            )
        )
    return entries


def _is_kickout_executed(kick: NodeKick | None, due_since: int) -> bool:
    return (
        kick is not None
        and kick.state in EXPELLED_STATES
        and kick.accusation is not None
        and kick.accusation.due_since == due_since
    )


def _find_answer_deadline(
    objection: Objected, objection_check: ObjectionCheck | None, terms: ObjectionTerms | None
) -> int | None:
    """Return the block time by which an objection must be answered.

    The result is None if no answer is needed.
    """
    if (
        objection_check is None
        or objection_check.verdict is ObjectionVerdict.REFUTED
        or terms is None
    ):
        return None
    return objection.time + terms.answer


def load_objection_delay_entries(
    uow: UnitOfWork, nodes: Sequence[Node], policy: KickoutPolicy, time: int
) -> dict[Address, ObjectionDelayEntry]:
    """Return why this reporter delays the accusation of each node.

    `time` is the current block time. Nodes without a delay are left out; no accusation is delayed
    if objections are not indexed.
    """
    kickouts = [
        (KickoutDue(node.address, node.kickout_due_since, None), node.kickout_due_time)
        for node in nodes
        if node.kickout_due_since is not None and node.kickout_due_time is not None
    ]
    delays = load_objection_delays(uow, policy, kickouts, time)
    return {
        node: ObjectionDelayEntry(
            reason=delay.reason,
            until=delay.until,
            objection=None if delay.objection is None else delay.objection.seq,
            is_accepted=delay.is_accepted,
        )
        for node, delay in delays.items()
    }


def count_unanswered_objections(uow: UnitOfWork, policy: KickoutPolicy) -> int:
    """Count the objections to due kickouts that wait for this reporter's answer.

    An objection that the automatic check refutes waits for no answer.
    """
    if policy.objection_terms is None:
        return 0
    due_nodes = [interval.node for interval in load_open_kickout_intervals(uow, policy.rules)]
    objections = uow.objections.list_for_nodes(due_nodes)
    entries = build_objection_entries(uow, objections, policy)
    return sum(entry.answer_until is not None for entry in entries)


def _build_answer_entry(answer: ObjectionAnswer | None) -> AnswerEntry | None:
    if answer is None:
        return None
    return AnswerEntry(
        is_accepted=answer.is_accepted,
        because=answer.because,
        answered_at=answer.answered_at,
        signer=answer.signer,
        signature=None if answer.signature is None else f"0x{answer.signature.hex()}",
    )


def describe_objection_state(entry: ObjectionEntry) -> str:
    """Return a short phrase for the state of an objection."""
    if entry.answer is not None:
        verb = "accepted" if entry.answer.is_accepted else "declined"
        return f"{verb} by this reporter: {entry.answer.because}"
    if entry.is_executed:
        return "the kickout was executed"
    if not entry.is_due:
        return "the kickout is no longer due"
    if not entry.is_counted:
        return "it delays nothing: it was late, or another one to this kickout came first"
    state_texts = {
        ObjectionVerdict.REFUTED.value: (
            "refuted by the automatic check, so it waits for no answer"
        ),
        ObjectionVerdict.SUPPORTED.value: "supported by the automatic check; waits for an answer",
        ObjectionVerdict.OPEN.value: "not decided by the automatic check",
    }
    return f"{state_texts[entry.verdict or ObjectionVerdict.OPEN.value]}: {entry.finding}"
