"""The daemon's turns that are there only where the settings ask for them."""

import time
from collections.abc import Mapping

from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.feed_steps import FeedSteps
from oracle.daemon.maintenance_steps import BACKGROUND_SECONDS
from oracle.daemon.notify_targets import targets_of
from oracle.daemon.scheduler import Job
from oracle.indexer.loop import IngestState
from oracle.notify.condition_notices import ConditionNotices
from oracle.notify.heartbeat import Heartbeat
from oracle.notify.notifier import Notifier
from oracle.queries.node_figures import node_figures
from oracle.telemetry.features import node_metrics

_TURN_SECONDS = 2.0
_METRICS_SECONDS = 30.0


def optional_jobs(
    app: App,
    ingest: IngestState,
    feed: FeedSteps | None,
    watch: DaemonHealth,
    *,
    is_daemon: bool,
) -> list[Job]:
    """Return them; raises as `targets_of`.

    A daemon waits a moment for each answer of a target and looks for it again in the next turn;
    who comes once waits until it is there.
    """
    jobs = [_notify_job(app, ingest, watch, is_daemon=is_daemon)] if app.config.notify else []
    if app.config.metrics.nodes and is_daemon:
        jobs.append(_metrics_job(app))
    return jobs if feed is None else [*jobs, *feed.jobs()]


def _notify_job(app: App, ingest: IngestState, watch: DaemonHealth, *, is_daemon: bool) -> Job:
    targets = targets_of(app.config.notify, _unix_seconds)
    notifier = Notifier(targets, app.store, app.rules, _unix_seconds)
    conditions = ConditionNotices(app.store, time.monotonic, _unix_seconds)
    heartbeats = [
        Heartbeat(target, told.heartbeat_seconds, time.monotonic)
        for target, told in zip(targets, app.config.notify, strict=True)
        if told.heartbeat_seconds is not None
    ]

    def report_health() -> None:
        health = watch.health()
        conditions.collect(health, watch.downtime)
        watch.downtime = None
        for heartbeat in heartbeats:
            heartbeat.turn(health, int(_unix_seconds()))

    def turn() -> Mapping[str, object] | None:
        head = None if ingest.heads is None else ingest.heads.latest.number
        if is_daemon:
            report_health()
        # What is told is no line of the log each time: metrics count it.
        return {} if notifier.run_once(head, BACKGROUND_SECONDS if is_daemon else None) else None

    return Job("notify", _TURN_SECONDS, turn)


def _metrics_job(app: App) -> Job:
    def turn() -> None:
        node_metrics.show(*node_figures(app.store, app.rules, app.config.metrics.most_nodes))

    return Job("node-metrics", _METRICS_SECONDS, turn)


def _unix_seconds() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)
