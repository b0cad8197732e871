"""The jobs of the daemon, in the order of their first ticks."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial

from oracle.daemon.compose import Index, open_prober
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.feed_jobs import open_feed_jobs
from oracle.daemon.index_job import IndexJob
from oracle.daemon.lease.lease_keeper import RENEW_SECONDS, renew
from oracle.daemon.maintenance_jobs import (
    BACKGROUND_SECONDS,
    COUNTERS_TURN_SECONDS,
    SNAPSHOT_TURN_SECONDS,
    MaintenanceJobs,
)
from oracle.daemon.notify_job import notify_job
from oracle.daemon.scheduler import Job
from oracle.daemon.senders import Senders
from oracle.daemon.sending_jobs import RECONCILE_SECONDS, SendingJobs
from oracle.daemon.statistics_jobs import STATISTICS_SECONDS, StatisticsJob, node_metrics_job
from oracle.indexer.feeds.head_limit import FeedHeadLimit
from oracle.indexer.loop import IngestState

# How often to check whether a probe is due (each endpoint once an hour) or a late answer has
# arrived.
PROBE_SECONDS = 10.0


def open_jobs(
    index: Index,
    epoch: int,
    senders: Senders,
    health: DaemonHealth,
    closing: ExitStack,
    wait: Callable[[float], object] | None = None,
) -> list[Job]:
    """Return the configured jobs of the daemon in the order of their first ticks.

    `wait` blocks inside a tick of a process that exits when all is done (`run --once`). Such a
    process renews the lease in a job, and has no jobs that only a long-running process needs.
    `exit_stack` closes what the jobs opened.

    Raises:
        InputError: a notification target, or a feed, cannot be used.
    """
    config, poll, stays = index.config, index.config.chain.poll_seconds, wait is None
    patience = BACKGROUND_SECONDS if stays else None
    feed = open_feed_jobs(index, health, patience, closing)
    ingest = IngestState(
        confirms_safe=config.oracle.level == "safe",
        limit=None if feed is None else FeedHeadLimit(index.store),
    )
    maintenance = MaintenanceJobs(index, epoch, ingest, health, patience)
    indexing = IndexJob(index, ingest, maintenance, health, wait)
    sending = SendingJobs(senders, ingest, health, maintenance.why_unsure, is_once=not stays)
    statistics = StatisticsJob(index, epoch, senders, ingest, health)
    prober = cache(partial(open_prober, index, patience))
    return [
        # A daemon renews its lease on a thread, so that a long tick does not let it expire.
        *([] if stays else [Job("lease", RENEW_SECONDS, partial(renew, index.store, epoch))]),
        Job("reconcile", RECONCILE_SECONDS, sending.reconcile_nonces),
        # Before the index: notices read blocks that a manual rewind is about to replace.
        *([notify_job(index, ingest, health, is_daemon=stays)] if config.notify else []),
        *([node_metrics_job(index)] if config.metrics.nodes and stays else []),
        *([] if feed is None else feed.jobs()),
        Job("index", poll, indexing.tick),
        # Confirm before sending: a call that was mined meanwhile must not be paid for twice.
        Job("confirm", poll, sending.confirm),
        Job("publish", poll, sending.publish),
        *([] if senders.dispatcher is None else [Job("dispatch", poll, sending.dispatch)]),
        Job("audit", poll, maintenance.audit),
        Job("probe", PROBE_SECONDS, lambda: prober().turn()),
        *([Job("snapshots", SNAPSHOT_TURN_SECONDS, maintenance.snapshot)] if stays else []),
        Job("counters", COUNTERS_TURN_SECONDS, maintenance.compare),
        Job("statistics", STATISTICS_SECONDS, statistics.count),
    ]
