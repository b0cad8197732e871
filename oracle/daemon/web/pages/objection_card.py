"""Builds a node page's section of objections, with the form that the owner signs.

The form is shown while a kickout is due and this reporter accepts objections. The script
`objection.js` lets the owner's wallet sign the values of the form, and posts them.
"""

import json
from collections.abc import Sequence
from typing import Any

from oracle.domain.ids import Address
from oracle.domain.reports.objections import MAX_WORDS_BYTES, ObjectionReason
from oracle.domain.state import Node
from oracle.kickouts.objection_intake import get_next_seq
from oracle.queries.api.records.objection_view import (
    PostedEntry,
    PostedState,
    build_posted_entry,
    is_post_open,
)
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.objection_models import ObjectionEntry, describe_objection_state
from oracle.signing.typed_data import ObjectionStatement, build_objection_typed_data

_LABEL_BY_REASON = {
    ObjectionReason.APPLICATION: "The application's fault",
    ObjectionReason.OUTAGE: "An outage of the network",
    ObjectionReason.ONE_CREATOR: "One creator works against the node",
    ObjectionReason.NOT_ON_CHAIN: "The events are not on the chain",
    ObjectionReason.RULES: "The rules were applied wrongly",
    ObjectionReason.OTHER: "Another reason",
}


def build_objection_values(
    snapshot: ApiSnapshot, node: Node, entries: Sequence[ObjectionEntry]
) -> dict[str, Any]:
    """Return a node's objections, whether its owner may object, and the form's values."""
    due_since = node.kickout_due_time
    posted_entry = _find_pending_post(snapshot, node)
    has_objected = any(entry.due_since == due_since for entry in entries)
    may_object = due_since is not None and not has_objected and not is_post_open(posted_entry)
    return {
        "objections": [(entry, describe_objection_state(entry)) for entry in entries],
        "posted": posted_entry,
        "due_since": due_since,
        "may_object": may_object,
        "objection_form": _build_objection_form(snapshot, node.address, due_since)
        if due_since is not None and may_object
        else None,
    }


def _find_pending_post(snapshot: ApiSnapshot, node: Node) -> PostedEntry | None:
    """Return the newest objection posted against the due kickout, unless it is on chain."""
    newest_posts = snapshot.uow.objection_inbox.list_for_node(node.address, 1)
    if not newest_posts or newest_posts[0].due_since != node.kickout_due_time:
        return None
    entry = build_posted_entry(newest_posts[0])
    is_listed = snapshot.uow.objections.get(node.address, entry.seq) is not None
    return None if is_listed or entry.state is PostedState.ON_CHAIN else entry


def _build_objection_form(
    snapshot: ApiSnapshot, node: Address, due_since: int
) -> dict[str, Any] | None:
    """Return the data that the owner's wallet signs, with the owner's fields empty."""
    intake = snapshot.source.objection_intake
    if intake is None:
        return None
    statement = ObjectionStatement(
        node, due_since, 0, "", get_next_seq(snapshot.uow, node), snapshot.cursor.time
    )
    typed_data = build_objection_typed_data(statement, intake.settings.domain)
    return {
        "typed_data": json.dumps(typed_data),
        "reasons": [
            (reason.value, reason.option, label) for reason, label in _LABEL_BY_REASON.items()
        ],
        "max_bytes": MAX_WORDS_BYTES,
    }
