"""The objections of nodes to their kickouts, newest first."""

from oracle.queries.answers import Answer
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.objection_models import (
    ObjectionEntry,
    ObjectionView,
    build_objection_entries,
)


class ObjectionPage(Answer):
    """Objections, newest first; they change no score and no report."""

    objections: list[ObjectionEntry]


class OneObjection(Answer):
    """One objection of a node to its kickout."""

    objection: ObjectionEntry


def get_objection_view(snapshot: ApiSnapshot) -> ObjectionView:
    """Return the rules by which objections are checked."""
    source = snapshot.source
    return ObjectionView(source.archive.kickout_policy, source.objection_terms)


def list_objections(snapshot: ApiSnapshot, limit: int) -> ObjectionPage:
    """Return up to `limit` objections of all nodes."""
    objections = snapshot.uow.objections.list_newest(limit)
    entries = build_objection_entries(snapshot.uow, objections, get_objection_view(snapshot))
    return ObjectionPage(as_of=snapshot.as_of, objections=entries)


def list_node_objections(snapshot: ApiSnapshot, prefix: str) -> ObjectionPage:
    """Return the newest objections of a node; raise NotFoundError if there is no such node."""
    node = find_node_by_prefix(snapshot, prefix)
    objections = snapshot.uow.objections.list_for_node(node.address)
    entries = build_objection_entries(snapshot.uow, objections, get_objection_view(snapshot))
    return ObjectionPage(as_of=snapshot.as_of, objections=entries)


def build_objection_answer(snapshot: ApiSnapshot, prefix: str, seq: int) -> OneObjection:
    """Return one objection; raise NotFoundError if there is none with this number."""
    node = find_node_by_prefix(snapshot, prefix)
    objection = snapshot.uow.objections.get(node.address, seq)
    if objection is None:
        raise NotFoundError(f"node {node.address} has made no objection {seq}")
    (entry,) = build_objection_entries(snapshot.uow, [objection], get_objection_view(snapshot))
    return OneObjection(as_of=snapshot.as_of, objection=entry)
