"""The acts of the demo: a title and a caption for the daemon's current state.

An act begins when the database first shows its condition; earlier acts do not come back.
"""

from typing import NamedTuple

from devnet.demo.snapshot import DemoSnapshot
from oracle.daemon.web.played_act import DemoAct
from oracle.domain.reports.node_kicks import KickState


class Act(NamedTuple):
    """A title and a caption; the caption fits one terminal line."""

    title: str
    caption: str


ACTS = (
    Act("nodes run tasks", "three nodes run each task; a faster correct answer earns more points"),
    Act("scores go on chain", "one signed root a round, by which any contract verifies a score"),
    Act("a node times out", "each timeout lowers its reliability, and therefore its QoS score"),
    Act("a node is excluded", "its reliability is too low, so it gets no tasks for some minutes"),
    Act("a node recovers", "reliability rises again with time and with each completed task"),
    Act("a kickout is due", "a node's mean score stayed too low; any account may now accuse it"),
    Act("a node is kicked out", "the contract ends its membership and returns its stake"),
)


class ActTracker:
    """Tracks the current act."""

    def __init__(self) -> None:
        self._act_index = 0
        self._excluded: frozenset[str] = frozenset()

    def update(self, snapshot: DemoSnapshot) -> None:
        """Advance to the latest act whose condition the snapshot meets; never go back."""
        excluded = frozenset(row.name for row in snapshot.rows if row.node_scores.is_excluded)
        conditions = (
            True,
            snapshot.round_number > 0,
            bool(snapshot.timeouts),
            bool(excluded),
            bool(self._excluded - excluded),
            bool(snapshot.due_kickouts),
            any(kick.state is KickState.EXPELLED for kick in snapshot.kicks),
        )
        self._act_index = max(
            [
                self._act_index,
                *(act_index for act_index, is_reached in enumerate(conditions) if is_reached),
            ]
        )
        self._excluded = excluded

    @property
    def title_line(self) -> str:
        """The number and title of the act, such as `3/7 a node times out`."""
        return f"{self._act_index + 1}/{len(ACTS)} {ACTS[self._act_index].title}"

    @property
    def caption(self) -> str:
        """The caption of the act: what happens, and why."""
        return f"    {ACTS[self._act_index].caption}"

    @property
    def current_act(self) -> DemoAct:
        """The act in the form that the web pages show."""
        act = ACTS[self._act_index]
        return DemoAct(f"{self._act_index + 1} of {len(ACTS)}: {act.title}", act.caption)
