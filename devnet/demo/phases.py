"""The phases of the demo, with a title and a caption for the daemon's current state.

A phase begins when the database first meets its condition, and the demo never returns to an
earlier phase.
"""

from typing import NamedTuple

from devnet.demo.snapshot import DemoSnapshot
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.domain.reports.node_kicks import KickState


class Phase(NamedTuple):
    """The title and the caption of a phase.

    The caption fits into one line of a terminal.
    """

    title: str
    caption: str


PHASES = (
    Phase(
        "nodes run tasks", "three nodes run each task; a faster correct answer earns more points"
    ),
    Phase("scores go on chain", "one signed root a round, by which any contract verifies a score"),
    Phase("a node times out", "each timeout lowers its reliability, and therefore its QoS score"),
    Phase(
        "a node is excluded", "its reliability is too low, so it gets no tasks for some minutes"
    ),
    Phase("a node recovers", "reliability rises again with time and with each completed task"),
    Phase("a kickout is due", "a node's mean score stayed too low; any account may now accuse it"),
    Phase("a node is kicked out", "the contract ends its membership and returns its stake"),
)


class PhaseTracker:
    """Tracks the current phase of the demo."""

    def __init__(self) -> None:
        self._phase_index = 0
        self._excluded_names: frozenset[str] = frozenset()

    def update(self, snapshot: DemoSnapshot) -> None:
        """Advance to the last phase that the snapshot has reached, but never go back."""
        excluded_names = frozenset(
            row.name for row in snapshot.rows if row.node_scores.is_excluded
        )
        conditions = (
            True,
            snapshot.round_number > 0,
            bool(snapshot.timeouts),
            bool(excluded_names),
            bool(self._excluded_names - excluded_names),
            bool(snapshot.due_kickouts),
            any(kick.state is KickState.EXPELLED for kick in snapshot.kicks),
        )
        self._phase_index = max(
            [
                self._phase_index,
                *(act_index for act_index, is_reached in enumerate(conditions) if is_reached),
            ]
        )
        self._excluded_names = excluded_names

    @property
    def title_line(self) -> str:
        """The number and title of the current phase, such as `3/7 a node times out`."""
        return f"{self._phase_index + 1}/{len(PHASES)} {PHASES[self._phase_index].title}"

    @property
    def caption(self) -> str:
        """A sentence about what happens in the current phase and why."""
        return f"    {PHASES[self._phase_index].caption}"

    @property
    def current_phase(self) -> DemoPhase:
        """The current phase in the form that the web pages show."""
        phase = PHASES[self._phase_index]
        return DemoPhase(f"{self._phase_index + 1} of {len(PHASES)}: {phase.title}", phase.caption)
