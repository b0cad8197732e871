"""Compares all nodes under the rules in force and under other rules, at the same block.

The figures are computed by a worker (`daemon.rules_previews`) and kept in files. A file is shown
only while its rules are still announced, or configured as a shadow set.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.rules_changes import list_pending_changes
from oracle.domain.scoring.node_scores import is_excluded, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.queries.api.draw_weights import find_draw_weighting, is_available
from oracle.queries.api.node_order import NodeRanking
from oracle.queries.rules_texts import find_rules_text, parse_rules_text
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.crynux.crynux_policy import Weighting

# Subfolder of the folder of announced rules, with the previews and the files of their worker.
PREVIEW_FOLDER = "previews"
# Number of the newest announcements that get a preview.
_MAX_ANNOUNCED = 4


class NodePreview(msgspec.Struct, frozen=True, array_like=True):
    """The standing of a node under the rules in force and under other rules.

    QoS and chances are in units of 10^-18, and ranks are counted from 1. QoS, rank and chance are
    None for a node that is not a member. The chance of the next task is 0 while a member is not
    available, and None if the draws have no weights.
    """

    node: Address
    qos_now: int | None
    qos_then: int | None
    rank_now: int | None
    rank_then: int | None
    kickout_due_now: bool
    kickout_due_then: bool
    excluded_now: bool
    excluded_then: bool
    chance_now: int | None
    chance_then: int | None

    @property
    def places_lost(self) -> int:
        """The number of ranks that the node loses; negative if the node rises."""
        if self.rank_now is None or self.rank_then is None:
            return 0
        return self.rank_then - self.rank_now


class RulesPreview(msgspec.Struct, frozen=True):
    """The standing of all nodes under both rule sets, at a final block.

    Nodes are keyed by address; rule sets are identified by their SHA-256.
    """

    rules_now: str
    rules_then: str
    block: int
    time: int
    nodes: tuple[NodePreview, ...]

    def find_node(self, address: Address) -> NodePreview | None:
        """Return the preview of a node, or None if no event up to the block refers to the node."""
        return next((entry for entry in self.nodes if entry.node == address), None)


_DECODER = msgspec.json.Decoder(RulesPreview)


class OtherRules(NamedTuple):
    """Announced rules, or a shadow rule set that is scored beside the rules in force.

    Announced rules take effect at the unix time `ready_at` or later; `ready_at` is None for a
    shadow set. `name` is the hash of announced rules, or the name of the shadow set.
    """

    name: str
    rules: Rules
    ready_at: int | None = None


def list_other_rules(
    uow: UnitOfWork,
    profile: str,
    folder: Path,
    shadow_rules: Mapping[str, Rules],
) -> list[OtherRules]:
    """Return the announced rules whose text is on this host, and the shadow rule sets.

    Announced rules that this program cannot read, or that belong to another `profile`, are left
    out.
    """
    pending_changes = list_pending_changes(uow.rounds.get_contract_settings().rules_changes)
    other_rules = []
    for change in pending_changes[-_MAX_ANNOUNCED:]:
        text = find_rules_text(change.rules_hash, "", folder)
        rules = None if text is None else _parse_rules(text, profile)
        if rules is not None and change.scheduled is not None:
            ready_at = change.scheduled.ready_at
            other_rules.append(OtherRules(change.rules_hash, rules, ready_at))
    return other_rules + [OtherRules(name, rules) for name, rules in shadow_rules.items()]


def _parse_rules(text: str, profile: str) -> Rules | None:
    try:
        rules = parse_rules_text(text)
    except ValueError:
        return None
    return rules if msgspec.json.decode(text).get("profile") == profile else None


def compute_rules_preview(
    fold_now: Fold,
    fold_then: Fold,
    block: int,
    time: int,
    dispatch: DispatchSettings | None = None,
) -> RulesPreview:
    """Compare all nodes after the same block under two rule sets.

    `dispatch` are the settings by which this host draws nodes, or None if it draws none.
    """
    cursor = Cursor(block, ZERO_HASH, time, None, None, 0)
    ranking_now, ranking_then = (
        NodeRanking(cursor, fold.ledger.nodes, fold.rules) for fold in (fold_now, fold_then)
    )
    weighting_now, weighting_then = (
        find_draw_weighting(fold.rules, dispatch) for fold in (fold_now, fold_then)
    )
    preview_entries = []
    for address in sorted(fold_now.ledger.nodes.keys() & fold_then.ledger.nodes.keys()):
        node_now = fold_now.ledger.nodes[address]
        node_then = fold_then.ledger.nodes[address]
        qos_now = ranking_now.compute_qos(node_now)
        qos_then = ranking_then.compute_qos(node_then)
        preview_entries.append(
            NodePreview(
                node=address,
                qos_now=qos_now,
                qos_then=qos_then,
                rank_now=ranking_now.find_rank_by_qos(address, qos_now),
                rank_then=ranking_then.find_rank_by_qos(address, qos_then),
                kickout_due_now=is_kickout_due(node_now, fold_now.rules, time),
                kickout_due_then=is_kickout_due(node_then, fold_then.rules, time),
                excluded_now=is_excluded(node_now, time, fold_now.rules),
                excluded_then=is_excluded(node_then, time, fold_then.rules),
                chance_now=_compute_chance(ranking_now, fold_now.rules, node_now, weighting_now),
                chance_then=_compute_chance(
                    ranking_then, fold_then.rules, node_then, weighting_then
                ),
            )
        )
    return RulesPreview(
        identify_rules(fold_now.rules).sha256,
        identify_rules(fold_then.rules).sha256,
        block,
        time,
        tuple(preview_entries),
    )


def _compute_chance(
    ranking: NodeRanking, rules: Rules, node: Node, weighting: Weighting | None
) -> int | None:
    """Return a member's share of the weights of all available members.

    The result is in units of 10^-18, 0 for a member that is not available, and None for a
    non-member or without weights.
    """
    qos = ranking.compute_qos(node)
    if qos is None or weighting is None:
        return None
    if not is_available(node, ranking.cursor.time, rules):
        return 0
    return ranking.get_draw_weights(weighting).compute_chance(node.stake, qos, qos)


def build_preview_path(folder: Path, rules: Rules) -> Path:
    """Return the path of the file that holds the preview of these rules."""
    return folder / f"{identify_rules(rules).sha256}.json"


def encode_preview(preview: RulesPreview) -> bytes:
    return msgspec.json.encode(preview)


def iterate_previews(
    folder: Path, rules_now: Rules, other_rules: list[OtherRules]
) -> Iterator[tuple[OtherRules, RulesPreview]]:
    """Yield each other rule set with its preview, if the preview is current."""
    sha256_now = identify_rules(rules_now).sha256
    for other_set in other_rules:
        path = build_preview_path(folder, other_set.rules)
        try:
            preview = _read_preview(path, path.stat().st_mtime_ns)
        except (OSError, msgspec.DecodeError):
            continue
        if preview.rules_now == sha256_now:
            yield other_set, preview


@lru_cache(maxsize=8)
def _read_preview(path: Path, _modified_ns: int) -> RulesPreview:
    return _DECODER.decode(path.read_bytes())
