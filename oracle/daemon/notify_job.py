"""The daemon job that delivers notices and heartbeats, and the targets of `[[notify]]`.

The targets are built in this module, so that the modules that read settings import no HTTP client.
"""

import time
from collections.abc import Callable, Sequence

from oracle.daemon.config.sections import NotifySection
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.maintenance_jobs import BACKGROUND_SECONDS
from oracle.daemon.records import Records
from oracle.daemon.scheduler import Job, TickFacts
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.loop import IngestState
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.notifier import ConditionNoticeWriter, Heartbeat, Notifier
from oracle.notify.subscriber_delivery import SubscriberDeliveries
from oracle.notify.target import NoticeFilter, Target
from oracle.notify.webhook import Webhook, WebhookEndpoint
from oracle.signing.keystore import read_secret_file

_TICK_SECONDS = 2.0
_MIN_SECRET_LENGTH = 16


def open_notify_job(
    records: Records, ingest: IngestState, health: DaemonHealth, *, is_daemon: bool
) -> Job:
    """Create the job that delivers notices.

    With `is_daemon`, a tick waits only a moment for the response of a target, and the next tick
    takes a late response. Otherwise (`run --once`), the tick waits until the response arrives.
    """
    targets = open_notification_targets(records.config.notify, unix_seconds)
    subscriber_deliveries = open_subscriber_deliveries(records)
    notifier = Notifier(targets, records.store, records.rules, unix_seconds, subscriber_deliveries)
    condition_writer = ConditionNoticeWriter(records.store, time.monotonic, unix_seconds)
    heartbeats = [
        Heartbeat(target, section.heartbeat_seconds, time.monotonic)
        for target, section in zip(targets, records.config.notify, strict=True)
        if section.heartbeat_seconds is not None
    ]

    def collect_health() -> None:
        report = health.build_report()
        condition_writer.store_condition_notices(report, health.downtime)
        health.downtime = None
        for heartbeat in heartbeats:
            heartbeat.send_if_due(report, int(unix_seconds()))

    def tick() -> TickFacts:
        head = None if ingest.heads is None else ingest.heads.latest.number
        if is_daemon:
            collect_health()
        # The facts are empty, because metrics already count the deliveries and no log line is
        # needed.
        return {} if notifier.run_once(head, BACKGROUND_SECONDS if is_daemon else None) else None

    return Job("notify", _TICK_SECONDS, tick)


def open_subscriber_deliveries(records: Records) -> SubscriberDeliveries | None:
    """Create the deliveries to subscribed owners, or return None if subscriptions are off.

    Raises:
        InputError: Apprise is missing, or rejects the URL of the mail server.
    """
    terms = records.config.subscriptions.terms
    if terms is None:
        return None
    if terms.mail_url is not None:
        # This checks the URL at startup. The address is a placeholder; no mail is sent to it.
        AppriseTarget("subscriptions.mail_url", NoticeFilter(), terms.mail_url, "a@example.org")
    return SubscriberDeliveries(terms, records.store, unix_seconds)


def open_notification_targets(
    sections: Sequence[NotifySection], clock: Callable[[], float]
) -> list[Target]:
    """Create the configured notification targets.

    `clock` returns unix seconds.

    Raises:
        InputError: a secret is missing, short or readable by others; Apprise is missing or does
            not support an address.
    """
    return [_open_target(section, clock) for section in sections]


def _open_target(section: NotifySection, clock: Callable[[], float]) -> Target:
    nodes = frozenset(Address(node) for node in section.nodes)
    notice_filter = NoticeFilter(frozenset(section.kinds), nodes)
    if section.secret_file is None:
        return AppriseTarget(section.name, notice_filter, section.url)
    secret = read_secret_file(section.secret_file).strip()
    if len(secret) < _MIN_SECRET_LENGTH:
        raise InputError(
            f"{section.secret_file}: the secret is too short; expected at least "
            f"{_MIN_SECRET_LENGTH} characters"
        )
    webhook_endpoint = WebhookEndpoint(
        section.url, secret.encode(), section.timeout_seconds, section.allow_private
    )
    return Webhook(section.name, notice_filter, webhook_endpoint, clock)
