"""The daemon's turns that are there only where the settings ask for them."""

import time
from collections.abc import Mapping

from oracle.daemon.app import App
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.maintenance_steps import BACKGROUND_SECONDS
from oracle.daemon.notify_targets import targets_of
from oracle.daemon.scheduler import Job
from oracle.daemon.wall_clock import unix_seconds
from oracle.indexer.loop import IngestState
from oracle.notify.condition_notices import ConditionNotices
from oracle.notify.heartbeat import Heartbeat
from oracle.notify.notifier import Notifier
from oracle.queries.node_figures import node_figures
from oracle.telemetry import node_metrics

_TURN_SECONDS = 2.0
_METRICS_SECONDS = 30.0


def notify_job(app: App, ingest: IngestState, watch: DaemonHealth, *, is_daemon: bool) -> Job:
    """Return the job that delivers notices; raises as `targets_of`.

    A daemon waits a moment for the answer of a target and reads it in the next tick; `run --once`
    waits until the answer is there.
    """
    targets = targets_of(app.config.notify, unix_seconds)
    notifier = Notifier(targets, app.store, app.rules, unix_seconds)
    conditions = ConditionNotices(app.store, time.monotonic, unix_seconds)
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
            heartbeat.turn(health, int(unix_seconds()))

    def turn() -> Mapping[str, object] | None:
        head = None if ingest.heads is None else ingest.heads.latest.number
        if is_daemon:
            report_health()
        # What is told is no line of the log each time: metrics count it.
        return {} if notifier.run_once(head, BACKGROUND_SECONDS if is_daemon else None) else None

    return Job("notify", _TURN_SECONDS, turn)


def node_metrics_job(app: App) -> Job:
    """Return the job that fills the metrics about single nodes."""

    def turn() -> None:
        node_metrics.show(*node_figures(app.store, app.rules, app.config.metrics.most_nodes))

    return Job("node-metrics", _METRICS_SECONDS, turn)
