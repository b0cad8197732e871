"""The state shared by the phases of a daemon process, and the services that they start.

These are the listeners and the trace export; the module also tunes garbage collection.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from oracle.chain.profiles.event_reader import EventReader
from oracle.daemon.compose import Index, serialize_configured_rules
from oracle.daemon.config.loader import Config, read_shadow_rules
from oracle.daemon.contract_accounts import ContractAccounts
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease_keeper import find_leader
from oracle.daemon.records import Records
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.stopping import StopSignal
from oracle.daemon.wall_clock import unix_seconds
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.domain.native import REQUIRED_VERSION, ignored_version
from oracle.errors import InputError, OracleError, TransientError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.snapshots import MAX_REQUEST_LOGS
from oracle.kickouts.objection_intake import IntakeSettings, ObjectionIntake
from oracle.notify.subscriptions import SubscriptionIntake
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource, open_snapshot
from oracle.quorum.wire_format import Board
from oracle.resources import format_install_command
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.telemetry.logger import get_logger

if TYPE_CHECKING:
    from fastapi import FastAPI

_GC_THRESHOLD = 50_000


class SendPermissions(NamedTuple):
    """The kinds of transactions that this process may send."""

    reports: bool
    starts: bool


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """The settings, state and stop signal of a daemon process.

    `exit_stack` closes what the phases have opened. The signed statements of this process are
    published to the other reporters on `board`.
    """

    config: Config
    permissions: SendPermissions
    stop: StopSignal
    exit_stack: ExitStack
    health: DaemonHealth = field(default_factory=lambda: DaemonHealth(JobLiveness(time.monotonic)))
    board: Board = field(default_factory=Board)


@contextmanager
def serve_listeners(process: DaemonProcess, index: Index | None) -> Iterator[dict[str, str]]:
    """Serve the operators' listener and, if configured, the statements and the read API.

    Yields the addresses by settings section. If `index` is None, the database has no tables yet,
    and the read API is not served.

    Raises:
        InputError: a port is in use, or a certificate cannot be used.
    """
    # The imports are local, because `run --once` serves nothing and starts faster without them.
    from oracle.daemon.web.health_app import create_health_app  # noqa: PLC0415
    from oracle.daemon.web.http_server import serve_app  # noqa: PLC0415
    from oracle.daemon.web.statements_app import create_statements_app  # noqa: PLC0415

    config, health = process.config, process.health

    def get_store() -> Store:
        if index is None:
            raise TransientError(
                "the database is empty; its tables are created once an endpoint responds"
            )
        return index.store

    with ExitStack() as exit_stack:
        web_server = serve_app(create_health_app(health, get_store), config.web, config.web.port)
        addresses = {"web": exit_stack.enter_context(web_server)}
        if config.statements.port is not None:
            statements_server = serve_app(
                create_statements_app(process.board), config.statements, config.statements.port
            )
            addresses["statements"] = exit_stack.enter_context(statements_server)
        if config.api.enabled and index is not None:
            api = open_read_api(index, index.reader, lambda: health.newest_block)
            api_server = serve_app(api, config.api, config.api.port)
            addresses["api"] = exit_stack.enter_context(api_server)
        yield addresses


def warn_if_native_code_ignored() -> None:
    """Log a warning if the native code is ignored because of its version."""
    if ignored_version is not None:
        get_logger().warning(
            "native_module_ignored", version=ignored_version, required=REQUIRED_VERSION
        )


@contextmanager
def export_traces(endpoint: str | None) -> Iterator[None]:
    """Export traces of the daemon's jobs to the OpenTelemetry collector at `endpoint`.

    If `endpoint` is None, nothing is exported.

    Raises:
        InputError: the extra `otel` is not installed.
    """
    if endpoint is None:
        yield
        return
    try:
        from oracle.telemetry.trace_export import export_spans  # noqa: PLC0415  an extra
    except ImportError:
        raise InputError(
            "tracing.endpoint: OpenTelemetry is not installed; run "
            f"{format_install_command('otel')}"
        ) from None
    with export_spans(endpoint):
        yield


def build_api_source(
    records: Records,
    reader: EventReader,
    get_head: Callable[[], int | None],
    *,
    clock: Callable[[], int] = lambda: int(unix_seconds()),
) -> ApiSource:
    """Build the read API's data source from the database."""
    config = records.config
    contract_accounts = ContractAccounts(config.chain, records.store)
    return ApiSource(
        EventArchive(
            records.store, reader, records.rules, MAX_REQUEST_LOGS, config.objections.terms
        ),
        NodeRankingCache(records.rules),
        get_head,
        clock,
        find_leader,
        records.dispatch_settings,
        token=reader.profile.token,
        labels=config.network.label_by_address,
        explorer=config.network.explorer,
        contact=config.network.contact,
        objection_intake=_open_objection_intake(records, contract_accounts),
        subscriptions=_open_subscription_intake(records, contract_accounts),
        rules_id=serialize_configured_rules(config, reader),
        announced_folder=config.rules.announced_folder,
        shadow_rules=read_shadow_rules(config),
    )


def _open_objection_intake(
    records: Records, contract_accounts: ContractAccounts
) -> ObjectionIntake | None:
    config, section = records.config, records.config.objections
    if section.intake_address is None:
        return None
    settings = IntakeSettings(
        Domain(config.chain.id, section.intake_address),
        records.rules,
        section.posts_per_hour,
        section.daily_gas,
    )
    return ObjectionIntake(
        records.store.open_unfenced_store(), settings, contract_accounts.accepts_signature
    )


def _open_subscription_intake(
    records: Records, contract_accounts: ContractAccounts
) -> SubscriptionIntake | None:
    terms = records.config.subscriptions.terms
    if terms is None:
        return None
    return SubscriptionIntake(
        records.store.open_unfenced_store(),
        terms,
        unix_seconds,
        contract_accounts.accepts_signature,
    )


def open_read_api(
    records: Records,
    reader: EventReader,
    get_head: Callable[[], int | None],
    *,
    clock: Callable[[], int] = lambda: int(unix_seconds()),
    get_phase: Callable[[], DemoPhase | None] = lambda: None,
) -> "FastAPI":
    """Create the read API and the pages over the database.

    `get_head` returns the newest block, or None if unknown; `clock` returns unix seconds;
    `get_phase` returns the current phase of a demonstration.

    Raises:
        InputError: the database does not match the program.
    """
    # Importing the API models takes a tenth of a second, which only a serving process should pay.
    from oracle.daemon.web.api.read_api import create_read_api  # noqa: PLC0415

    source = build_api_source(records, reader, get_head, clock=clock)
    _preload_ranking(source)
    config = records.config
    api = config.api
    folder = config.oracle.evidence_folder
    return create_read_api(
        source, streams=api, cors=api.cors, evidence_folder=folder, get_phase=get_phase
    )


def _preload_ranking(source: ApiSource) -> None:
    """Rank all nodes before the first request.

    Ranking takes a second for 100,000 nodes.
    """
    # Errors are ignored here, because the first requests return the error if the index is
    # unreadable.
    with suppress(OracleError), open_snapshot(source) as snapshot:
        snapshot.get_ranking().count_members_with_qos(0)


def tune_garbage_collection() -> None:
    """Exclude long-lived objects from garbage collection, and collect less often.

    A window creates and drops some ten thousand events and rows, which are never part of a
    reference cycle. By default, Python searches all objects for cycles after every 700
    allocations, which took a third of the time of a backfill (benchmarks/backfill.py). Garbage is
    not collected first, because a start leaves almost none, and searching all nodes takes long.
    """
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
