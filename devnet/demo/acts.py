"""The acts of the demo: a title and a caption for the daemon's current state.

An act begins when the database first shows its condition; earlier acts do not come back.
"""

from typing import NamedTuple

from devnet.demo.snapshot import DemoSnapshot
from oracle.daemon.web.played_act import DemoAct
from oracle.domain.reports.kicks import KickState


class Act(NamedTuple):
    """A title and a caption; the caption fits one terminal line."""

    title: str
    caption: str


ACTS = (
    Act("nodes work", "several do the same task; the faster a right answer, the more points"),
    Act("scores go on chain", "a signed report brings them where other contracts read them"),
    Act("a node times out", "each timeout leaves a part of its reliability, and so of its QoS"),
    Act("it is excluded", "with too little reliability it is given no tasks, for some minutes"),
    Act("it recovers", "reliability heals with time, and with each task that is done"),
    Act("a kickout is due", "its mean stayed under the line; whoever may veto has time for it"),
    Act("it is kicked out", "the contract ends its membership, and gives its stake back"),
)


class Playbill:
    """Tracks the current act."""

    def __init__(self) -> None:
        self._act = 0
        self._excluded: frozenset[str] = frozenset()

    def see(self, now: DemoSnapshot) -> None:
        """Advance to a later act if the snapshot shows one."""
        excluded = frozenset(row.name for row in now.rows if row.figures.is_excluded)
        seen = (
            True,
            now.round > 0,
            bool(now.timeouts),
            bool(excluded),
            bool(self._excluded - excluded),
            bool(now.due),
            any(kick.state is KickState.EXECUTED for kick in now.kicks),
        )
        self._act = max([self._act, *(place for place, is_seen in enumerate(seen) if is_seen)])
        self._excluded = excluded

    @property
    def line(self) -> str:
        """The number and title of the act, such as `3/7 a node times out`."""
        return f"{self._act + 1}/{len(ACTS)} {ACTS[self._act].title}"

    @property
    def caption(self) -> str:
        """The caption of the act: what happens, and why."""
        return f"    {ACTS[self._act].caption}"

    @property
    def played(self) -> DemoAct:
        """The act in the form that the web pages show."""
        act = ACTS[self._act]
        return DemoAct(f"{self._act + 1} of {len(ACTS)}: {act.title}", act.caption)
