"""The demo's event feed: one line per change between two snapshots."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from devnet.demo.snapshot import DemoSnapshot, SnapshotRow, floored
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import KickState
from oracle.systems.crynux.predownload import ANSWERED, OPEN, UNANSWERED

_UNIT = 10**18
_HIGHEST_SCORE = 10
_REQUESTS = {
    OPEN: "is asked to download",
    ANSWERED: "was asked for, and has downloaded",
    UNANSWERED: "has not downloaded",
}
_GONE = {
    "quit": "quits",
    "kicked_out": "is kicked out, stake returned",
    "paused": "pauses",
    "slashed": "is slashed: two groups gave another answer, its stake is gone",
}


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One event; `tone` is its style: good, bad, plain or big."""

    time: int
    block: int
    text: str
    tone: str


def news(before: DemoSnapshot | None, now: DemoSnapshot) -> Iterator[FeedEntry]:
    """Yield an entry for each change from the earlier to the later snapshot."""
    names = {row.address: row.name for row in now.rows}
    for change in now.timeouts:
        text = (
            f"{names[change.node]} times out: reliability "
            f"{change.before / _UNIT:.3f} -> {change.after / _UNIT:.3f}"
        )
        yield FeedEntry(change.time, change.at.block, text, "bad")
    if before is None:
        return
    for row in now.rows:
        yield from _of_row(
            next((one for one in before.rows if one.name == row.name), row), row, now
        )
    yield from _of_contests(before, now, names)
    yield from _of_rounds(before, now)
    yield from _of_kickouts(before, now, names)


def _of_row(before: SnapshotRow, row: SnapshotRow, now: DemoSnapshot) -> Iterator[FeedEntry]:
    if row.figures.is_excluded and not before.figures.is_excluded:
        reliability = floored(row.figures.reliability)
        text = f"{row.name} is excluded: reliability {reliability:.3f} is under 0.1"
        yield FeedEntry(now.time, now.block, text, "bad")
    if before.figures.is_excluded and not row.figures.is_excluded:
        text = f"{row.name} has recovered: reliability {floored(row.figures.reliability):.3f}"
        yield FeedEntry(now.time, now.block, text, "good")
    if row.figures.status in _GONE and before.figures.status != row.figures.status:
        yield FeedEntry(now.time, now.block, f"{row.name} {_GONE[row.figures.status]}", "big")
    for model, state in row.asked.items():
        if before.asked.get(model) != state:
            text = f"{row.name} {_REQUESTS[state]} {model}"
            yield FeedEntry(now.time, now.block, text, "plain")
    if before.figures.status == "paused" and row.figures.status not in _GONE:
        yield FeedEntry(now.time, now.block, f"{row.name} is back", "good")


def _of_rounds(before: DemoSnapshot, now: DemoSnapshot) -> Iterator[FeedEntry]:
    if now.round > before.round:
        told = sum(row.on_chain != "-" for row in now.rows)
        text = f"report accepted on chain: round {now.round}, {told} nodes"
        yield FeedEntry(now.time, now.block, text, "plain")


def _of_contests(
    before: DemoSnapshot, now: DemoSnapshot, names: Mapping[Address, str]
) -> Iterator[FeedEntry]:
    if now.contests > before.contests:
        text = "the answers of a group differ: its stakes are held"
        yield FeedEntry(now.time, now.block, text, "bad")
    for nodes in now.second_groups[len(before.second_groups) :]:
        members = ", ".join(names.get(node, node) for node in nodes)
        text = f"a second group does its work over again: {members}"
        yield FeedEntry(now.time, now.block, text, "big")


def _of_kickouts(
    before: DemoSnapshot, now: DemoSnapshot, names: Mapping[Address, str]
) -> Iterator[FeedEntry]:
    known = {interval.node for interval in before.due}
    for interval in now.due:
        if interval.node not in known:
            row = next(row for row in now.rows if row.address == interval.node)
            text = f"{row.name} is due to be kicked out: {_reason(row)}"
            yield FeedEntry(now.time, now.block, text, "big")
    open_now = {interval.node for interval in now.due}
    for row in now.rows:
        if row.address in known - open_now and row.figures.status not in _GONE:
            text = f"{row.name} is no longer due to be kicked out: {_reason(row)}"
            yield FeedEntry(now.time, now.block, text, "good")
    earlier = {kick.node: kick.state for kick in before.kicks}
    for kick in now.kicks:
        if earlier.get(kick.node) is kick.state:
            continue
        word = {
            KickState.LIVE: f"kickout of {names[kick.node]} proposed on chain, veto delay runs",
            KickState.CANCELLED: f"kickout of {names[kick.node]} cancelled",
            KickState.VETOED: f"kickout of {names[kick.node]} vetoed",
            KickState.OUTDATED: f"kickout of {names[kick.node]} died with its signers",
            KickState.EXECUTED: f"kickout of {names[kick.node]} executed on chain",
            KickState.REFUSED: f"{names[kick.node]} expelled, the network refused to end it",
            KickState.READMITTED: f"{names[kick.node]} readmitted",
        }[kick.state]
        yield FeedEntry(now.time, now.block, word, "big")


def _reason(row: SnapshotRow) -> str:
    """Return why a kickout is due.

    Legacy rules have no pool, so the text then only states that the score is too low.
    """
    if not row.scores:
        return "its score is below the line"
    return f"{row.scores} scores, mean {floored(row.figures.long_term) * _HIGHEST_SCORE:.1f}"
