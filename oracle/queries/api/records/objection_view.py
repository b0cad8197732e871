"""Lists the objections of nodes to their kickouts, and the objections posted to this reporter."""

from enum import StrEnum

from pydantic import Field

from oracle.queries.answers import AddressText, Answer, ApiModel
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.source import (
    ApiSnapshot,
    ApiSource,
    RequestError,
    open_snapshot,
)
from oracle.queries.objection_models import (
    ObjectionEntry,
    build_objection_entries,
)
from oracle.signing.typed_data import ObjectionStatement
from oracle.store.objection_inbox import PostedObjection


class ObjectionPage(Answer):
    """Objections, newest first; an objection changes no score and no report."""

    objections: list[ObjectionEntry]


class PostedState(StrEnum):
    """The state of an objection that was posted to this reporter."""

    WAITING = "waiting"
    SENT = "sent"
    ON_CHAIN = "on_chain"
    ENDED = "ended"


class PostedEntry(ApiModel):
    """An objection that was posted to this reporter, with its state."""

    seq: int
    due_since: int = Field(description="Time since which the kickout is due, in unix seconds.")
    received_at: int = Field(
        description=(
            "Time by the server's clock at which the objection was received, in unix seconds."
        )
    )
    state: PostedState
    ended_reason: str | None = Field(
        description="Why the objection was not submitted; null if it was or will be submitted."
    )


class NodeObjections(ObjectionPage):
    """The objections of a node, newest first, and the objections posted to this reporter."""

    posted: list[PostedEntry]


class ObjectionAccepted(Answer):
    """A posted objection that this reporter will submit on chain."""

    node: AddressText
    seq: int
    due_since: int = Field(description="Time since which the kickout is due, in unix seconds.")
    state: PostedState
    to: AddressText = Field(description="Address of the objections contract.")


def list_objections(snapshot: ApiSnapshot, limit: int) -> ObjectionPage:
    """Return up to `limit` objections of all nodes."""
    objections = snapshot.uow.objections.list_newest(limit)
    entries = build_objection_entries(
        snapshot.uow, objections, snapshot.source.archive.kickout_policy
    )
    return ObjectionPage(as_of=snapshot.as_of, objections=entries)


def list_node_objections(snapshot: ApiSnapshot, prefix: str) -> NodeObjections:
    """Return the newest objections of a node.

    Raises:
        NotFoundError: no node's address starts with `prefix`.
        AmbiguousPrefixError: several addresses start with `prefix`.
    """
    node = find_node_by_prefix(snapshot, prefix)
    objections = snapshot.uow.objections.list_for_node(node.address)
    entries = build_objection_entries(
        snapshot.uow, objections, snapshot.source.archive.kickout_policy
    )
    posted_entries = [
        build_posted_entry(posted_objection)
        for posted_objection in snapshot.uow.objection_inbox.list_for_node(node.address)
    ]
    return NodeObjections(as_of=snapshot.as_of, objections=entries, posted=posted_entries)


def build_posted_entry(posted_objection: PostedObjection) -> PostedEntry:
    """Build the API entry of an objection that was posted to this reporter."""
    if posted_objection.ended_at is not None:
        state = (
            PostedState.ON_CHAIN if posted_objection.ended_reason is None else PostedState.ENDED
        )
    else:
        state = PostedState.WAITING if posted_objection.intent_id is None else PostedState.SENT
    return PostedEntry(
        seq=posted_objection.seq,
        due_since=posted_objection.due_since,
        received_at=posted_objection.received_at,
        state=state,
        ended_reason=posted_objection.ended_reason,
    )


def is_post_open(posted_entry: PostedEntry | None) -> bool:
    """Return whether a posted objection is waiting, sent or on chain.

    An objection is not open if it was not posted, or if it ended without reaching the chain.
    """
    return posted_entry is not None and posted_entry.state is not PostedState.ENDED


def accept_objection(
    source: ApiSource, statement: ObjectionStatement, signature: bytes
) -> ObjectionAccepted:
    """Store a posted objection for submission on chain; see `ObjectionIntake.accept`.

    Raises:
        RequestError: this reporter accepts no objections.
    """
    intake = source.objection_intake
    if intake is None:
        raise RequestError("this reporter accepts no objections")
    intake.accept(statement, signature, source.clock())
    with open_snapshot(source) as snapshot:
        return ObjectionAccepted(
            as_of=snapshot.as_of,
            node=statement.node,
            seq=statement.seq,
            due_since=statement.due_since,
            state=PostedState.WAITING,
            to=intake.settings.domain.contract,
        )
