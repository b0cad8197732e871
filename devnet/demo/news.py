"""Turns the changes between two snapshots into the lines of the demo's event feed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devnet.demo.snapshot import DemoSnapshot, SnapshotRow, truncate_score
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import KickState
from oracle.systems.crynux.predownload import ANSWERED, OPEN, UNANSWERED

_UNIT = 10**18
_MAX_SCORE = 10
_DOWNLOAD_TEXTS = {
    OPEN: "is asked to download",
    ANSWERED: "has completed the download of",
    UNANSWERED: "did not download",
}
_DEPARTURE_TEXTS = {
    "quit": "quits",
    "kicked_out": "is kicked out, stake returned",
    "paused": "pauses",
    "slashed": "is slashed: its result was false, its stake is lost",
}


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An event in the feed.

    `tone` is its style, which is good, bad, plain or big.
    """

    time: int
    block: int
    text: str
    tone: str


def iter_feed_entries(
    previous_snapshot: DemoSnapshot | None, current_snapshot: DemoSnapshot
) -> Iterator[FeedEntry]:
    """Yield an entry for each change from one snapshot to the next."""
    name_by_address = {row.address: row.name for row in current_snapshot.rows}
    for change in current_snapshot.timeouts:
        text = (
            f"{name_by_address[change.node]} times out: reliability {change.before / _UNIT:.3f} "
            f"-> {change.after / _UNIT:.3f}"
        )
        yield FeedEntry(change.time, change.at.block, text, "bad")
    if previous_snapshot is None:
        return
    for row in current_snapshot.rows:
        yield from _iter_row_entries(
            next(
                (
                    previous_row
                    for previous_row in previous_snapshot.rows
                    if previous_row.name == row.name
                ),
                row,
            ),
            row,
            current_snapshot,
        )
    yield from _iter_contest_entries(previous_snapshot, current_snapshot, name_by_address)
    yield from _iter_incident_entries(previous_snapshot, current_snapshot)
    yield from _iter_round_entries(previous_snapshot, current_snapshot)
    yield from _iter_kickout_entries(previous_snapshot, current_snapshot, name_by_address)


def _iter_row_entries(
    previous_row: SnapshotRow, row: SnapshotRow, current_snapshot: DemoSnapshot
) -> Iterator[FeedEntry]:
    if row.node_scores.is_excluded and not previous_row.node_scores.is_excluded:
        reliability = truncate_score(row.node_scores.reliability)
        text = f"{row.name} is excluded: reliability {reliability:.3f} is below 0.1"
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "bad")
    if previous_row.node_scores.is_excluded and not row.node_scores.is_excluded:
        reliability = truncate_score(row.node_scores.reliability)
        text = f"{row.name} has recovered: reliability {reliability:.3f}"
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "good")
    if (
        row.node_scores.status in _DEPARTURE_TEXTS
        and previous_row.node_scores.status != row.node_scores.status
    ):
        yield FeedEntry(
            current_snapshot.time,
            current_snapshot.block,
            f"{row.name} {_DEPARTURE_TEXTS[row.node_scores.status]}",
            "big",
        )
    if row.is_kickout_near and not previous_row.is_kickout_near:
        text = f"warning to {row.name}: at this rate a kickout will be due"
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "bad")
    for model, state in row.state_by_model.items():
        if previous_row.state_by_model.get(model) != state:
            text = f"{row.name} {_DOWNLOAD_TEXTS[state]} {model}"
            yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "plain")
    if (
        previous_row.node_scores.status == "paused"
        and row.node_scores.status not in _DEPARTURE_TEXTS
    ):
        yield FeedEntry(
            current_snapshot.time, current_snapshot.block, f"{row.name} resumes work", "good"
        )


def _iter_round_entries(
    previous_snapshot: DemoSnapshot, current_snapshot: DemoSnapshot
) -> Iterator[FeedEntry]:
    if current_snapshot.round_number > previous_snapshot.round_number:
        node_count = sum(row.chain_score != "-" for row in current_snapshot.rows)
        text = (
            f"report accepted on chain: round {current_snapshot.round_number}, {node_count} nodes"
        )
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "plain")


def _iter_incident_entries(
    previous_snapshot: DemoSnapshot, current_snapshot: DemoSnapshot
) -> Iterator[FeedEntry]:
    incident_by_number = {incident.number: incident for incident in previous_snapshot.incidents}
    for incident in current_snapshot.incidents:
        if incident.number not in incident_by_number:
            kind_text = (
                "network outage" if incident.is_network_outage else "burst of one application"
            )
            text = (
                f"incident: {kind_text}, {incident.nodes} nodes time out; their timeouts are "
                "marked"
            )
            yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "big")
        earlier_incident = incident_by_number.get(incident.number)
        was_over = earlier_incident is not None and earlier_incident.over_at is not None
        if incident.over_at is not None and not was_over:
            text = (
                f"the incident is over: {incident.timeouts} timeouts, no score was changed by it"
            )
            yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "good")


def _iter_contest_entries(
    previous_snapshot: DemoSnapshot,
    current_snapshot: DemoSnapshot,
    name_by_address: Mapping[Address, str],
) -> Iterator[FeedEntry]:
    if current_snapshot.contest_count > previous_snapshot.contest_count:
        text = "a group's results differ: its nodes' stakes are held"
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "bad")
    for nodes in current_snapshot.second_groups[len(previous_snapshot.second_groups) :]:
        member_names = ", ".join(name_by_address.get(node, node) for node in nodes)
        text = f"a second group repeats the tasks: {member_names}"
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "big")


def _iter_kickout_entries(
    previous_snapshot: DemoSnapshot,
    current_snapshot: DemoSnapshot,
    name_by_address: Mapping[Address, str],
) -> Iterator[FeedEntry]:
    previously_due_nodes = {interval.node for interval in previous_snapshot.due_kickouts}
    for interval in current_snapshot.due_kickouts:
        if interval.node not in previously_due_nodes:
            row = next(row for row in current_snapshot.rows if row.address == interval.node)
            text = f"{row.name} is due to be kicked out: {_format_kickout_reason(row)}"
            yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "big")
    currently_due_nodes = {interval.node for interval in current_snapshot.due_kickouts}
    for row in current_snapshot.rows:
        if (
            row.address in previously_due_nodes - currently_due_nodes
            and row.node_scores.status not in _DEPARTURE_TEXTS
        ):
            text = f"{row.name} is no longer due to be kicked out: {_format_kickout_reason(row)}"
            yield FeedEntry(current_snapshot.time, current_snapshot.block, text, "good")
    previous_state_by_node = {kick.node: kick.state for kick in previous_snapshot.kicks}
    for kick in current_snapshot.kicks:
        if previous_state_by_node.get(kick.node, KickState.NONE) is kick.state:
            continue
        name = name_by_address[kick.node]
        text_of_state = {
            KickState.NONE: f"accusation of {name} undone by a reorg",
            KickState.ACCUSED: f"{name} accused on chain; the kickout can be vetoed",
            KickState.RECOVERED: f"accusation of {name} ended: the last root no longer states it",
            KickState.VETOED: f"kickout of {name} vetoed",
            KickState.EXPELLED: f"kickout of {name} executed on chain",
            KickState.REFUSED: f"{name} expelled, but the network refused to remove it",
            KickState.READMITTED: f"{name} readmitted",
        }[kick.state]
        yield FeedEntry(current_snapshot.time, current_snapshot.block, text_of_state, "big")


def _format_kickout_reason(row: SnapshotRow) -> str:
    """Describe why a kickout is due.

    Legacy rules have no pool of scores, so the text then only states that the score is too low.
    """
    if not row.score_count:
        return "its score is below the threshold"
    mean = truncate_score(row.node_scores.long_term) * _MAX_SCORE
    return f"{row.score_count} scores, mean {mean:.1f}"
