"""Builds the daemon's jobs in the order of their first ticks."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial

from oracle.daemon.compose import Index, open_endpoint_prober
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.feed_jobs import open_feed_jobs
from oracle.daemon.index_job import IndexJob
from oracle.daemon.lease_keeper import RENEW_SECONDS, renew_held_lease
from oracle.daemon.maintenance_jobs import (
    BACKGROUND_SECONDS,
    COUNTERS_TICK_SECONDS,
    SNAPSHOT_TICK_SECONDS,
    MaintenanceJobs,
)
from oracle.daemon.notify_job import open_notify_job
from oracle.daemon.rules_previews import open_preview_job
from oracle.daemon.rules_switch import RulesSwitcher
from oracle.daemon.scheduler import Job
from oracle.daemon.senders import Senders
from oracle.daemon.sending_jobs import RECONCILE_SECONDS, SendingJobs
from oracle.daemon.statistics_jobs import STATISTICS_SECONDS, StatisticsJob, build_node_metrics_job
from oracle.indexer.feed_events import FeedHeadLimit
from oracle.indexer.loop import IngestState

# Interval, in seconds, between checks whether an endpoint's hourly probe is due or a late response
# to a probe has arrived.
PROBE_TICK_SECONDS = 10.0


def open_jobs(
    index: Index,
    epoch: int,
    senders: Senders,
    health: DaemonHealth,
    exit_stack: ExitStack,
    wait: Callable[[float], object] | None = None,
) -> list[Job]:
    """Create the daemon's configured jobs in the order of their first ticks.

    `wait` waits for some seconds within a tick. It is set in a process that exits when everything
    is done (`run --once`), and None in a daemon. The former renews the lease by a job, and has no
    jobs that only a long-running process needs. `exit_stack` closes what the jobs have opened.

    Raises:
        InputError: a notification target, or a feed, cannot be used.
    """
    config = index.config
    poll_seconds = index.config.chain.poll_seconds
    is_daemon = wait is None
    max_wait_seconds = BACKGROUND_SECONDS if is_daemon else None
    feed_jobs = open_feed_jobs(index, health, max_wait_seconds, exit_stack)
    ingest = IngestState(
        confirms_safe=config.oracle.level == "safe",
        head_limit=None if feed_jobs is None else FeedHeadLimit(index.store),
    )
    maintenance = MaintenanceJobs(index, epoch, ingest, health, max_wait_seconds)
    switcher = RulesSwitcher(index, epoch, health.liveness.mark_progress)
    index_job = IndexJob(index, ingest, maintenance, health, switcher, wait)
    sending_jobs = SendingJobs(
        senders,
        ingest,
        health,
        maintenance.find_unreportable_state_reason,
        is_one_shot=not is_daemon,
    )
    statistics_job = StatisticsJob(index, epoch, senders, ingest, health)
    get_prober = cache(partial(open_endpoint_prober, index, max_wait_seconds))
    return [
        # The daemon renews its lease in a thread, even during long ticks, so it needs no job for
        # this.
        *(
            []
            if is_daemon
            else [Job("lease", RENEW_SECONDS, partial(renew_held_lease, index.store, epoch))]
        ),
        Job("reconcile", RECONCILE_SECONDS, sending_jobs.reconcile_nonces),
        # Notices come before indexing, because they read blocks that indexing may replace after a
        # manual rewind.
        *(
            [open_notify_job(index, ingest, health, is_daemon=is_daemon)]
            if config.has_notice_recipients
            else []
        ),
        *([build_node_metrics_job(index)] if config.metrics.nodes and is_daemon else []),
        *([] if feed_jobs is None else feed_jobs.build_jobs()),
        Job("index", poll_seconds, index_job.run_tick, index.chain.tracker.estimate_poll_wait),
        # Calls are confirmed before others are sent, so that the daemon does not pay for a call
        # that was mined meanwhile.
        Job("confirm", poll_seconds, sending_jobs.confirm_transactions),
        Job("publish", poll_seconds, sending_jobs.advance_reports),
        *(
            []
            if senders.dispatcher is None
            else [Job("dispatch", poll_seconds, sending_jobs.advance_dispatch)]
        ),
        Job("audit", poll_seconds, maintenance.audit_blocks),
        Job("probe", PROBE_TICK_SECONDS, lambda: get_prober().run_due_probe()),
        *(
            [
                Job("snapshots", SNAPSHOT_TICK_SECONDS, maintenance.update_snapshots),
                open_preview_job(index, exit_stack),
            ]
            if is_daemon
            else []
        ),
        Job("counters", COUNTERS_TICK_SECONDS, maintenance.check_counters),
        Job("statistics", STATISTICS_SECONDS, statistics_job.update_statistics),
    ]
