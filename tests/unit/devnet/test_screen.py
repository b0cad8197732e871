"""The demo's screen fits a terminal of 80 columns and 24 lines, and names the current phase."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from devnet.demo.news import FeedEntry, iter_feed_entries
from devnet.demo.phases import PHASES, PhaseTracker
from devnet.demo.screen import Screen
from devnet.demo.snapshot import DemoSnapshot, SnapshotRow
from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange
from oracle.domain.ids import Address
from oracle.domain.incidents import Incident
from oracle.domain.reports.node_kicks import KickState, NodeKick
from oracle.domain.scoring.node_figures import compute_node_scores
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import History, fold_node


def row(name: str, *, is_excluded: bool = False) -> SnapshotRow:
    node = Address("0x" + f"{len(name):040x}")
    idle = compute_node_scores(fold_node(History().joins("A"), "A"), 0, CRYNUX)
    node_scores = replace(idle, status="busy", is_excluded=is_excluded)
    return SnapshotRow(name, node, "plays fair", 12, node_scores, "0.5")


def snapshot(
    *, reports: int = 0, timeouts: int = 0, excluded: bool = False, nodes: int = 12
) -> DemoSnapshot:
    rows = tuple(row(f"node{n:02}", is_excluded=excluded and not n) for n in range(nodes))
    late = ReliabilityChange(
        rows[0].address, Position(1, 1, 1), 1, ReliabilityCause.TIMED_OUT, None, 10**18, 10**17
    )
    return DemoSnapshot(9, 60, reports, 0, rows, (late,) * timeouts, (), ())


def draw_screen(lines: list[FeedEntry], height: int = 24) -> list[str]:
    """Return the last screen on a terminal of 80 columns."""
    written = io.StringIO()
    console = Console(
        file=written, width=80, height=height, force_terminal=True, color_system=None
    )
    with Screen(console, start=0) as screen:
        screen.update(snapshot(), lines, head=9)
    # Without cursor movements; the screen is redrawn over itself.
    lines_drawn = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", written.getvalue()).splitlines()
    begins = max(n for n, line in enumerate(lines_drawn) if line.strip().startswith("chain time"))
    return lines_drawn[begins:]


def test_screen_fits_24_lines_with_newest_event_first():
    feed = [FeedEntry(n, n, f"event {n} " + "x" * 90, "bad") for n in range(40)]
    picture = draw_screen(feed)
    assert len(picture) <= 24
    assert all(len(line) <= 80 for line in picture)
    event_lines = [line for line in picture if "event " in line]
    assert [line.split("event ")[1].split()[0] for line in event_lines[:3]] == ["39", "38", "37"]
    assert len(event_lines) >= 3


def test_reports_are_counted_but_not_listed_as_events():
    picture = draw_screen([FeedEntry(1, 1, "report accepted on chain", "plain")])
    assert not [line for line in picture if "report accepted" in line]
    assert any("reports 0" in line for line in picture)


@pytest.mark.parametrize("phase", PHASES)
def test_phase_title_and_caption_fit_80_columns(phase):
    assert len(f"7/7 {phase.title}") <= 80
    assert len(f"    {phase.caption}") <= 80


def test_demo_act_number_never_decreases():
    phase_tracker = PhaseTracker()
    act_numbers = []
    for now in (
        snapshot(),
        snapshot(reports=1),
        snapshot(reports=1, timeouts=1),
        snapshot(reports=1, excluded=True),
        snapshot(reports=2),
        snapshot(reports=3, timeouts=1),
    ):
        phase_tracker.update(now)
        act_numbers.append(int(phase_tracker.title_line[0]))
    assert act_numbers == [1, 2, 3, 4, 5, 5]


def test_start_and_end_of_due_kickout_are_announced():
    now = snapshot(nodes=1)
    node = now.rows[0]
    due = replace(now, due_kickouts=(KickoutDue(node.address, Position(1, 1, 1), None),))
    opened = list(iter_feed_entries(now, due))
    closed = list(iter_feed_entries(due, now))
    assert [entry.text.split(":")[0] for entry in opened] == [
        f"{node.name} is due to be kicked out"
    ]
    assert [entry.text.split(":")[0] for entry in closed] == [
        f"{node.name} is no longer due to be kicked out"
    ]


def test_start_and_end_of_incident_are_announced_once():
    calm = snapshot(nodes=1)
    at = Position(1, 1, 1)
    incident = Incident(1, Address("0x" + "a" * 40), at, 60, 0, 119, 9, 9)
    begun = replace(calm, incidents=(incident,))
    over = replace(calm, incidents=(incident._replace(over_at=at, over_time=1_200),))
    feeds = [list(iter_feed_entries(*pair)) for pair in ((calm, begun), (begun, over))]
    assert [[entry.text.split(":")[0] for entry in feed] for feed in feeds] == [
        ["incident"],
        ["the incident is over"],
    ]
    assert "9 nodes time out" in feeds[0][0].text
    assert list(iter_feed_entries(over, over)) == []


def test_node_is_warned_once_when_a_kickout_is_near():
    calm = snapshot(nodes=1)
    near = replace(calm, rows=(replace(calm.rows[0], is_kickout_near=True),))
    (entry,) = iter_feed_entries(calm, near)
    assert entry.text.startswith(f"warning to {calm.rows[0].name}")
    assert list(iter_feed_entries(near, near)) == []


@pytest.mark.parametrize("state", list(KickState)[1:])
def test_each_new_state_of_a_kickout_is_announced_once(state: KickState):
    before = snapshot(nodes=1)
    node = before.rows[0]
    now = replace(before, kicks=(NodeKick(node.address, state),))
    (entry,) = iter_feed_entries(before, now)
    assert node.name in entry.text
    assert list(iter_feed_entries(now, now)) == []
