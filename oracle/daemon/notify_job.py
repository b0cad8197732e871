"""The daemon's job that delivers notices and heartbeats to the targets of `[[notify]]`."""

import time

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.maintenance_jobs import BACKGROUND_SECONDS
from oracle.daemon.notify_targets import open_targets
from oracle.daemon.records import Records
from oracle.daemon.scheduler import Job, TickFacts
from oracle.daemon.wall_clock import unix_seconds
from oracle.indexer.loop import IngestState
from oracle.notify.condition_notices import ConditionNoticeWriter
from oracle.notify.heartbeat import Heartbeat
from oracle.notify.notifier import Notifier

_TICK_SECONDS = 2.0


def open_notify_job(
    records: Records, ingest: IngestState, health: DaemonHealth, *, is_daemon: bool
) -> Job:
    """Return the job that delivers notices; raises the errors of `open_targets`.

    A daemon waits a moment for a target's response and reads a late response in the next tick.
    `run --once` waits until the response arrives.
    """
    targets = open_targets(records.config.notify, unix_seconds)
    notifier = Notifier(targets, records.store, records.rules, unix_seconds)
    conditions = ConditionNoticeWriter(records.store, time.monotonic, unix_seconds)
    heartbeats = [
        Heartbeat(target, section.heartbeat_seconds, time.monotonic)
        for target, section in zip(targets, records.config.notify, strict=True)
        if section.heartbeat_seconds is not None
    ]

    def collect_health() -> None:
        report = health.build_report()
        conditions.write_notices(report, health.downtime)
        health.downtime = None
        for heartbeat in heartbeats:
            heartbeat.send_if_due(report, int(unix_seconds()))

    def tick() -> TickFacts:
        head = None if ingest.heads is None else ingest.heads.latest.number
        if is_daemon:
            collect_health()
        # Deliveries are counted by metrics and need no log line each.
        return {} if notifier.run_once(head, BACKGROUND_SECONDS if is_daemon else None) else None

    return Job("notify", _TICK_SECONDS, tick)
