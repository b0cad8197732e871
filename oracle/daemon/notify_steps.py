"""The daemon's turn for telling subscribers; there is none where `[[notify]]` names nobody."""

import time
from collections.abc import Mapping

from oracle.daemon.app import App
from oracle.daemon.config.notify_section import targets_of
from oracle.daemon.maintenance_steps import BACKGROUND_SECONDS
from oracle.daemon.scheduler import Job
from oracle.indexer.loop import IngestState
from oracle.notify.notifier import Notifier

_TURN_SECONDS = 2.0


def notify_jobs(app: App, ingest: IngestState, *, is_daemon: bool) -> list[Job]:
    """Return the job, or none; raises as `targets_of`.

    A daemon waits a moment for each answer and looks for it again in the next turn; who comes
    once waits until it is there.
    """
    if not app.config.notify:
        return []
    targets = targets_of(app.config.notify, _unix_seconds)
    notifier = Notifier(targets, app.store, app.rules, _unix_seconds)

    def turn() -> Mapping[str, object] | None:
        head = None if ingest.heads is None else ingest.heads.latest.number
        # What is told is no line of the log each time: metrics count it.
        return {} if notifier.turn(head, BACKGROUND_SECONDS if is_daemon else None) else None

    return [Job("notify", _TURN_SECONDS, turn)]


def _unix_seconds() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)
