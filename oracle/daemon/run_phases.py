"""The phases of `run` before its jobs: waiting for an endpoint, acquiring the lease, checks."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from oracle import __version__
from oracle.chain.source import ChainSource
from oracle.daemon.chain_endpoints import check_chain, open_chain, reload_quarantined_endpoints
from oracle.daemon.compose import (
    Index,
    get_checked_chain,
    open_index,
    store_or_check_database_identity,
)
from oracle.daemon.config.chain_section import ChainSection
from oracle.daemon.configured_keys import OpenKey
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.event_readers import open_reader
from oracle.daemon.lease_keeper import (
    HolderState,
    HolderWatch,
    LeaseHeldError,
    get_holder_state,
    try_acquire_lease,
)
from oracle.daemon.maintenance_jobs import find_unsound_block_reason
from oracle.daemon.records import Records, open_records
from oracle.daemon.scheduler import Job, Waker, run_jobs
from oracle.daemon.senders import (
    Reporter,
    Senders,
    check_contract,
    open_dispatch_context,
    open_reporter,
    open_reporter_contexts,
)
from oracle.daemon.startup import DaemonProcess, serve_listeners, tune_garbage_collection
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.health import Condition
from oracle.errors import FatalError, TransientError
from oracle.indexer.reorgs import finality_halt
from oracle.rpc.background import run_in_background
from oracle.rpc.endpoints.providers import list_shared_address_warnings
from oracle.store.lease_repository import LeaseState
from oracle.store.schema import SchemaAge, check_schema, inspect_schema
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import indexer_metrics, metrics, quorum_metrics
from oracle.telemetry.logger import get_logger

# The command that appears in the name of the lease holder.
RUN_COMMAND = "qos-oracle run"
# Interval, in seconds, at which a standby tries to acquire the lease.
STANDBY_SECONDS = 2.0

T = TypeVar("T")


def open_existing_records(process: DaemonProcess) -> Records | None:
    """Open the database, or return None if it is empty.

    Raises:
        InputError: the database's schema does not match the code.
    """
    if inspect_schema(process.config.database.url).age is SchemaAge.EMPTY:
        return None
    return process.exit_stack.enter_context(open_records(process.config))


def wait_for_index(
    process: DaemonProcess,
    records: Records | None,
    retry: Callable[[Callable[[], ChainSource]], ChainSource] | None = None,
) -> Index | None:
    """Open the index and wait until an endpoint answers, or return None if `stop` is set.

    `records` is None if the database is empty. Its tables are then created as soon as an endpoint
    has proven to serve the configured chain. `retry` repeats a request until an endpoint answers.
    If `retry` is None, a job of the daemon repeats the request, and the listeners are served
    meanwhile.

    Raises:
        InputError: the endpoint serves another chain, or its contracts are not the configured
            ones.
    """
    config, exit_stack, stop = process.config, process.exit_stack, process.stop

    def run_check(check: Callable[[], ChainSource], index: Index | None = None) -> None:
        if retry is None:
            retry_until_answered(process, check, index)
        else:
            retry(check)

    if records is None:
        with open_chain(config, open_reader(config)) as chain:
            run_check(lambda: check_chain(config, chain))
        if stop.reason is not None:
            return None
        records = exit_stack.enter_context(open_records(config, create=True))
    index = exit_stack.enter_context(open_index(records))
    run_check(lambda: get_checked_chain(index), index)
    return None if stop.reason is not None else index


def acquire_lease_or_wait(
    process: DaemonProcess,
    index: Index,
    get_reporter: Callable[[], Reporter],
    *,
    is_standby: bool,
) -> int | None:
    """Acquire the lease and return its epoch, or return None if `stop` is set first.

    A standby checks the contract and then waits until the leader has ended. Any other process
    waits for the lease to expire, and only if the holder may have ended already.

    Raises:
        LeaseHeldError: the holder is alive, and this process is no standby.
    """
    stop, previous_state = process.stop, None
    if is_standby:
        if process.permissions.reports:
            retry_until_answered(process, lambda: check_contract(get_reporter()), index)
            if stop.reason is not None:
                return None
    else:
        # Acquire the lease before opening the port, so that a second daemon fails with the name of
        # the lease holder, not with "port in use".
        epoch, previous_state = try_acquire_lease(index.store, RUN_COMMAND)
        if epoch is not None:
            return epoch
        raise_if_holder_alive(previous_state)
    tune_garbage_collection()
    with serve_listeners(process, index) as addresses:
        if previous_state is None:
            get_logger().info("standby_started", **addresses)
        else:
            wait_reason = f"{previous_state.holder} may be dead; its lease has not expired yet"
            get_logger().warning("waiting_for_lease_expiry", **addresses, reason=wait_reason)
        return _wait_for_lease(process, index, previous_state)


def _wait_for_lease(
    process: DaemonProcess, index: Index, previous_state: LeaseState | None
) -> int | None:
    """Wait for the lease, acquire it, and return its epoch.

    The lease can be acquired if it is free or expired, or if its holder has ended. A job of the
    daemon waits, so that failures appear in the log, in the metrics and at `/readyz`. The result
    is None if `stop` was set first. For a standby, `previous_state` is None. Any other process
    passes the state of the lease, and waits only for this holder, which may have ended.

    Raises:
        LeaseHeldError: the holder is alive, and this process is no standby.
        InputError: the database cannot be written, or a newer version has upgraded it.
    """
    stop = process.stop
    health = process.health
    acquired_epochs = list[int]()
    observed_states = [] if previous_state is None else [previous_state]
    holder_watch = HolderWatch()

    def try_take_over_lease() -> Mapping[str, object] | None:
        epoch, lease_state = try_acquire_lease(index.store, RUN_COMMAND, holder_watch)
        indexer_metrics.EPOCH.set(lease_state.epoch)
        if epoch is None:
            if observed_states:
                raise_if_holder_alive(lease_state, observed_states[-1])
                observed_states.append(lease_state)
                health.waiting_for = f"the lease of {lease_state.holder} to expire"
            else:
                _record_lease_holder(health, lease_state)
            return None
        # The database may have been upgraded meanwhile, so the schema is checked again.
        check_schema(process.config.database.url, create=False)
        acquired_epochs.append(epoch)
        health.leader = health.waiting_for = None
        stop.event.set()
        return {"did": "took over", "epoch": epoch}

    run_jobs([Job("standby", STANDBY_SECONDS, try_take_over_lease)], stop.event, health.liveness)
    stop.clear_stop_event()
    return acquired_epochs[0] if acquired_epochs else None


def raise_if_holder_alive(
    lease_state: LeaseState, previous_state: LeaseState | None = None
) -> None:
    """Raise an error if the lease holder is running on this host or just renewed the lease.

    Raises:
        LeaseHeldError: the holder is alive.
    """
    has_renewed = previous_state is not None and (
        lease_state.epoch != previous_state.epoch
        or lease_state.until_ms != previous_state.until_ms
    )
    if has_renewed or get_holder_state(lease_state.holder) is HolderState.ALIVE:
        raise LeaseHeldError(lease_state)


def _record_lease_holder(health: DaemonHealth, lease_state: LeaseState) -> None:
    if health.leader != lease_state.holder:
        get_logger().info("waiting_for_lease", leader=lease_state.holder, epoch=lease_state.epoch)
    health.leader = lease_state.holder


def retry_until_answered(
    process: DaemonProcess, request: Callable[[], T], index: Index | None
) -> T | None:
    """Repeat `request` until an endpoint answers, and return its result.

    Health, metrics and the read API are served meanwhile, and the reason for the wait is logged.
    The result is None if `stop` was set first.
    """
    try:
        return request()
    except TransientError as error:
        health = process.health
        health.set_condition(Condition.NO_ENDPOINT, str(error))
        with serve_listeners(process, index) as addresses:
            get_logger().warning("waiting_for_endpoint", **addresses, reason=str(error))
            result = retry_request(process, request, index)
        health.clear_condition(Condition.NO_ENDPOINT)
        return result


def retry_request(
    process: DaemonProcess, request: Callable[[], T], index: Index | None
) -> T | None:
    """Repeat `request` until an endpoint answers, and return its result.

    The result is None if `stop` was set first. A job of the daemon sends the request, so that
    failures appear in the log, in the metrics and at `/readyz`.
    """
    stop = process.stop
    results = list[T]()

    def try_request() -> Mapping[str, object]:
        if index is not None:
            # An operator may have readmitted an endpoint in the meantime.
            reload_quarantined_endpoints(index.chain, index.store)
        results.append(request())
        stop.event.set()
        return {"did": "answered"}

    poll_seconds = process.config.chain.poll_seconds
    run_jobs([Job("chain", poll_seconds, try_request)], stop.event, process.health.liveness)
    stop.clear_stop_event()
    return results[0] if results else None


def make_reporter_opener(
    process: DaemonProcess, index: Index, open_key: OpenKey
) -> Callable[[], Reporter]:
    """Return a function that opens the reporter on the first call and caches it."""

    @cache
    def open_cached_reporter() -> Reporter:
        return process.exit_stack.enter_context(open_reporter(index, open_key, process.board))

    return open_cached_reporter


def prepare_senders(
    process: DaemonProcess,
    index: Index,
    epoch: int,
    open_key: OpenKey,
    get_reporter: Callable[[], Reporter],
) -> Senders:
    """Run every check that is possible before the first tick, and open the senders.

    Raises:
        InputError: the database belongs to another chain or to other rules, or a key or the
            contract is not as configured.
        TransientError: no endpoint answers.
    """
    permissions, health = process.permissions, process.health
    index.store.set_fencing_epoch(epoch)
    # The previous leader may have recorded that an endpoint was proven wrong.
    reload_quarantined_endpoints(index.chain, index.store)
    store_or_check_database_identity(index)
    halt_reason = finality_halt.init_halt_metric(index.store)
    if halt_reason is not None:
        get_logger().error("daemon_halted", reason=halt_reason)
    with index.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    if cursor is not None:
        health.record_folded_block(cursor)
    dispatcher = reporter = None
    if permissions.starts:
        dispatcher = open_dispatch_context(index, open_key, epoch, unix_seconds)
    if permissions.reports:
        opened_reporter = get_reporter()
        _check_and_log_reporter(opened_reporter)
        reporter = open_reporter_contexts(opened_reporter, epoch, unix_seconds)
        health.heartbeat_seconds = index.report_settings.heartbeat_seconds
    tune_garbage_collection()
    return Senders(reporter, dispatcher)


def _check_and_log_reporter(reporter: Reporter) -> None:
    """Check the contract, and log the signer, the transmitter, the quorum and the peers.

    Raises:
        InputError: the contract is not as configured.
        TransientError: too few endpoints answer to check the contract.
    """
    contract_configuration = check_contract(reporter)
    keys = reporter.keys
    peers = reporter.peers
    signer = keys.signer.address if keys and keys.signer else None
    transmitter = keys.transmitter.address if keys and keys.transmitter else None
    config = reporter.index.config
    quorum_metrics.init_signer_metrics(contract_configuration.signers)
    get_logger().info(
        "reporter_started",
        contract=reporter.account.domain.contract,
        signer=signer,
        transmitter=transmitter,
        rank=None if transmitter is None else config.reporters.transmit_rank,
        quorum=contract_configuration.quorum,
        signers=list(contract_configuration.signers),
        round=contract_configuration.contract_status.head.round,
        peers=[] if peers is None else [peer.name for peer in peers.all],
    )


def log_shared_addresses(chain: ChainSection) -> None:
    """Look up the endpoints' IP addresses in the background, and log which are shared."""

    def log_warnings() -> None:
        for warning in list_shared_address_warnings(chain.endpoints, chain.providers):
            get_logger().warning("endpoints_share_address", reason=warning)

    run_in_background(log_warnings, "endpoint-addresses")


def log_daemon_started(process: DaemonProcess, epoch: int, addresses: Mapping[str, str]) -> None:
    """Log that the jobs have started, and the listeners' addresses."""
    get_logger().info(
        "daemon_started",
        version=__version__,
        chain_id=process.config.chain.id,
        **addresses,
        publishing=process.permissions.reports,
        dispatching=process.permissions.starts,
        epoch=epoch,
    )
    metrics.STARTED.set_to_current_time()


@contextmanager
def wake_on_new_heads(index: Index, waker: Waker) -> Iterator[None]:
    """Run the index job at each new head from `[chain] websocket`, if one is configured."""
    websocket_url = index.config.chain.websocket
    if websocket_url is None:
        yield
        return
    from oracle.rpc.new_heads import (  # noqa: PLC0415  imports websockets; most daemons use none
        NewHeadSubscription,
        PolledHead,
    )

    tracker = index.chain.tracker
    new_heads = NewHeadSubscription(
        websocket_url,
        lambda: waker.wake_job("index"),
        lambda: PolledHead(tracker.newest_number, tracker.block_seconds),
        time.monotonic,
    )
    new_heads.start()
    try:
        yield
    finally:
        new_heads.stop()


def get_verified_final_cursor(index: Index, senders: Senders) -> Cursor | None:
    """Return the last folded block after checking that the result of `run --once` is final.

    Raises:
        FatalError: the index is halted, or contains blocks that are not verified.
        TransientError: the outcome of a sent call is unknown.
    """
    with index.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        halt_reason = uow.halts.find_halt_reason()
    if halt_reason is not None:
        raise FatalError(f"the index has not caught up: {halt_reason}")
    unaudited_blocks_reason = find_unsound_block_reason(index)
    if unaudited_blocks_reason is not None:
        raise FatalError(f"some blocks are not verified: {unaudited_blocks_reason}")
    if senders.missing_receipt_reasons:
        raise TransientError(
            f"the outcome of a call is unknown: {senders.missing_receipt_reasons[0]}"
        )
    return cursor
