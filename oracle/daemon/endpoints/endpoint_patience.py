"""How `run --once` waits for who asks to be left alone for a while, instead of giving up.

A daemon has a next turn anyway. A run that is to leave when all is done waits as long as it is
told to, a little at a time, so that its lease is kept and a signal is heard (decision 0129).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from oracle.daemon.scheduler import Job
from oracle.daemon.stopping import StopSignal
from oracle.errors import TransientError

T = TypeVar("T")

# In all, without anything done meanwhile, for one step.
PATIENCE_SECONDS = 300.0
# At a time: the lease is kept, and other steps turn, between two of them.
_AT_A_TIME = 5.0


@dataclass(slots=True)
class EndpointPatience:
    """Waits for one thing that is asked for again and again; `stop` ends any wait."""

    stop: StopSignal
    seconds: float = PATIENCE_SECONDS
    _waited: float = 0.0

    def borne(self, work: Callable[[], T]) -> T:
        """Do `work`, as often as its endpoint asks to come back later.

        Raises:
            TransientError: nobody said when, or patience is over.
            typer.Exit: a signal came meanwhile.
        """
        while True:
            try:
                done = work()
            except TransientError as error:
                self.wait(error)
                self.stop.check()
            else:
                self.reset_wait()
                return done

    def wait(self, error: TransientError) -> float:
        """Wait a part of what was asked for, and tell it; return how long, in seconds.

        Raises:
            TransientError: `error`: nobody said for how long, or patience is
                over, or will be by then.
        """
        if error.retry_after is None or self._waited + error.retry_after > self.seconds:
            raise error
        seconds = min(_AT_A_TIME, max(error.retry_after, 0.1))
        structlog.get_logger().warning(
            "waiting_for_endpoint", seconds=round(seconds, 1), reason=str(error)
        )
        self._waited += seconds
        self.stop.event.wait(seconds)
        return seconds

    def reset_wait(self) -> None:
        """Note that what was waited for was done."""
        self._waited = 0.0


def patient(steps: Sequence[Job], stop: StopSignal) -> list[Job]:
    """Return the steps; each waits where it is asked to, and is turned again then."""
    return [_patient(step, EndpointPatience(stop)) for step in steps]


def _patient(step: Job, patience: EndpointPatience) -> Job:
    def turn() -> Mapping[str, object] | None:
        try:
            done = step.turn()
        except TransientError as error:
            return {"did": "waited", "seconds": patience.wait(error)}
        patience.reset_wait()
        return done

    return replace(step, turn=turn)
