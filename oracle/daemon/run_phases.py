"""The phases around the jobs of `run`: wait for an endpoint, acquire the lease, run the checks."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import structlog

from oracle import __version__
from oracle.chain.source import ChainSource
from oracle.daemon.compose import (
    Index,
    check_chain,
    check_chain_of,
    identify,
    open_chain,
    open_index,
    open_reader,
    recall_quarantine,
)
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_holder import Fate, fate_of
from oracle.daemon.lease.lease_keeper import HolderWatch, LeaseHeldError, try_take
from oracle.daemon.maintenance_jobs import unaudited_reason
from oracle.daemon.process import DaemonProcess
from oracle.daemon.records import Records, open_records
from oracle.daemon.scheduler import Job, Waker, run as run_jobs
from oracle.daemon.senders import (
    Reporter,
    SenderOpeners,
    Senders,
    check_contract,
    open_dispatcher,
    reporter_contexts,
)
from oracle.daemon.startup import freeze_garbage, serving_all
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.health import Condition
from oracle.errors import FatalError, TransientError
from oracle.indexer.reorgs import finality_halt
from oracle.rpc.new_heads import NewHeadSubscription, PolledHead
from oracle.store.ops.lease_repository import LeaseState
from oracle.store.schema import SchemaAge, schema_state
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import indexer_metrics, metrics, quorum_metrics

# The command in the lease holder's name.
RUN_COMMAND = "qos-oracle run"
# How often a standby tries to acquire the lease.
STANDBY_SECONDS = 2.0

T = TypeVar("T")


def open_unless_empty(process: DaemonProcess) -> Records | None:
    """Open the database, or return None if the database is empty.

    Raises:
        InputError: the database does not fit the code.
    """
    if schema_state(process.config.database.url).age is SchemaAge.EMPTY:
        return None
    return process.closing.enter_context(open_records(process.config))


def wait_for_index(
    process: DaemonProcess,
    records: Records | None,
    retry: Callable[[Callable[[], ChainSource]], ChainSource] | None = None,
) -> Index | None:
    """Open the index and wait until an endpoint answers; return None if `stop` was set first.

    `records` is None if the database is empty; its tables are created once the endpoint's chain is
    known to be the configured one. `retry` repeats a request until an endpoint answers; None:
    retry as a daemon that serves its listeners meanwhile.

    Raises:
        InputError: the endpoint serves another chain, or its contracts are not the configured
            ones.
    """
    config, closing, stop = process.config, process.closing, process.stop

    def ask(question: Callable[[], ChainSource], index: Index | None = None) -> None:
        if retry is None:
            retry_until_answered(process, question, index)
        else:
            retry(question)

    if records is None:
        with open_chain(config, open_reader(config)) as chain:
            ask(lambda: check_chain(config, chain))
        if stop.reason is not None:
            return None
        records = closing.enter_context(open_records(config, create=True))
    index = closing.enter_context(open_index(records))
    ask(lambda: check_chain_of(index), index)
    return None if stop.reason is not None else index


def take_lease(
    process: DaemonProcess,
    index: Index,
    open_reporter: Callable[[], Reporter],
    *,
    is_standby: bool,
) -> int | None:
    """Acquire the lease and return its epoch, or None if `stop` was set first.

    A standby checks the contract and then waits for the leader to end. Another process waits only
    if the holder may be dead, until the lease expires.

    Raises:
        LeaseHeldError: the holder is alive, and this process is no standby.
    """
    stop, before = process.stop, None
    if is_standby:
        if process.sends.reports:
            retry_until_answered(process, lambda: check_contract(open_reporter()), index)
            if stop.reason is not None:
                return None
    else:
        # The lease is acquired before the port is opened, so that a second daemon names the first
        # one in its error.
        epoch, before = try_take(index.store, RUN_COMMAND)
        if epoch is not None:
            return epoch
        refuse_living(before)
    freeze_garbage()
    with serving_all(process, index) as addresses:
        if before is None:
            structlog.get_logger().info("standby_started", **addresses)
        else:
            reason = f"{before.holder} may be dead; its lease is not over"
            structlog.get_logger().warning("waiting_for_lease_expiry", **addresses, reason=reason)
        return _await_lease(process, index, before)


def _await_lease(process: DaemonProcess, index: Index, before: LeaseState | None) -> int | None:
    """Wait until the lease is free, has expired or lost its holder; return the acquired epoch.

    The wait is a job of the daemon: its failures are in the log, in the metrics and at `/readyz`.
    The result is None if `stop` was set first. A process that is no standby passes the
    `previous_state` of the lease: it waits for that holder only, which may be dead.

    Raises:
        LeaseHeldError: the holder is alive, and this process is no standby.
        InputError: the database cannot be written.
    """
    stop, health, epochs = process.stop, process.health, list[int]()
    seen, holder = [] if before is None else [before], HolderWatch()

    def try_again() -> Mapping[str, object] | None:
        epoch, held = try_take(index.store, RUN_COMMAND, holder)
        indexer_metrics.EPOCH.set(held.epoch)
        if epoch is None:
            if seen:
                refuse_living(held, seen[-1])
                seen.append(held)
                health.waits_for = f"the lease of {held.holder} to be over"
            else:
                _stand_by(health, held)
            return None
        epochs.append(epoch)
        health.standby_of = health.waits_for = None
        stop.event.set()
        return {"did": "took over", "epoch": epoch}

    run_jobs([Job("standby", STANDBY_SECONDS, try_again)], stop.event, health.liveness)
    stop.clear()
    return epochs[0] if epochs else None


def refuse_living(held: LeaseState, before: LeaseState | None = None) -> None:
    """Raise if the lease holder is alive: its process runs here, or it has just renewed the lease.

    Raises:
        LeaseHeldError: the holder is alive.
    """
    has_acted = before is not None and (
        held.epoch != before.epoch or held.until_ms != before.until_ms
    )
    if has_acted or fate_of(held.holder) is Fate.LIVES:
        raise LeaseHeldError(held)


def _stand_by(health: DaemonHealth, held: LeaseState) -> None:
    if health.standby_of != held.holder:
        structlog.get_logger().info("waiting_for_lease", leader=held.holder, epoch=held.epoch)
    health.standby_of = held.holder


def retry_until_answered(
    process: DaemonProcess, work: Callable[[], T], index: Index | None
) -> T | None:
    """Return the result of `request`, repeated until an endpoint answers.

    Health, metrics and API are served meanwhile, and the log reports the reason. The result is
    None if `stop` was set first.
    """
    try:
        return work()
    except TransientError as error:
        health = process.health
        health.raise_condition(Condition.NO_ENDPOINT, str(error))
        with serving_all(process, index) as addresses:
            structlog.get_logger().warning("waiting_for_endpoint", **addresses, reason=str(error))
            done = _await_answer(process, work, index)
        health.clear_condition(Condition.NO_ENDPOINT)
        return done


def _await_answer(process: DaemonProcess, work: Callable[[], T], index: Index | None) -> T | None:
    """Repeat `request` until an endpoint answers; return its result, or None if `stop` is set.

    The wait is a job of the daemon: its failures are in the log, in the metrics and at `/readyz`.
    """
    stop, results = process.stop, list[T]()

    def try_again() -> Mapping[str, object]:
        if index is not None:
            # An endpoint that was readmitted meanwhile may be used again.
            recall_quarantine(index.chain, index.store)
        results.append(work())
        stop.event.set()
        return {"did": "answered"}

    poll_seconds = process.config.chain.poll_seconds
    run_jobs([Job("chain", poll_seconds, try_again)], stop.event, process.health.liveness)
    stop.clear()
    return results[0] if results else None


def prepare_senders(
    process: DaemonProcess, index: Index, epoch: int, openers: SenderOpeners
) -> Senders:
    """Run every check that is possible before the first tick, and open the senders.

    Raises:
        InputError: the database is of another chain or of other rules, or a key or the contract
            is not as configured.
        TransientError: no endpoint answers now.
    """
    sends, health = process.sends, process.health
    index.store.fence(epoch)
    # The previous leader may have proven an endpoint wrong since this process started.
    recall_quarantine(index.chain, index.store)
    identify(index)
    halt_reason = finality_halt.show(index.store)
    if halt_reason is not None:
        structlog.get_logger().error("daemon_halted", reason=halt_reason)
    with index.store.reading() as uow:
        cursor = uow.cursor.get()
    if cursor is not None:
        health.folded_to(cursor)
    dispatcher = reporter = None
    if sends.starts:
        dispatcher = open_dispatcher(index, openers.open_key, epoch, unix_seconds)
    if sends.reports:
        opened = openers.open_reporter()
        _introduce(opened)
        reporter = reporter_contexts(opened, epoch, unix_seconds)
        health.heartbeat_seconds = index.report_settings.heartbeat_seconds
    freeze_garbage()
    return Senders(reporter, dispatcher)


def _introduce(reporter: Reporter) -> None:
    """Check the contract, and log the signer, the transmitter, the quorum and the peers.

    Raises:
        InputError: the contract is not as configured.
        TransientError: not enough endpoints answer to know.
    """
    constitution, keys, peers = check_contract(reporter), reporter.keys, reporter.peers
    signer = keys.signer.address if keys and keys.signer else None
    transmitter = keys.transmitter.address if keys and keys.transmitter else None
    config = reporter.index.config
    quorum_metrics.know(constitution.signers)
    structlog.get_logger().info(
        "reporter_started",
        contract=reporter.account.domain.contract,
        signer=signer,
        transmitter=transmitter,
        rank=None if transmitter is None else config.reporters.transmit_rank,
        quorum=constitution.quorum,
        signers=list(constitution.signers),
        round=constitution.contract_status.head.round,
        peers=[] if peers is None else [peer.name for peer in peers.all],
    )


def log_started(process: DaemonProcess, epoch: int, addresses: Mapping[str, str]) -> None:
    """Log that the jobs start, and the addresses of the listeners."""
    structlog.get_logger().info(
        "daemon_started",
        version=__version__,
        chain_id=process.config.chain.id,
        **addresses,
        publishing=process.sends.reports,
        dispatching=process.sends.starts,
        epoch=epoch,
    )
    metrics.STARTED.set_to_current_time()


@contextmanager
def waking_on_new_heads(index: Index, waker: Waker) -> Iterator[None]:
    """Run the index job at each new head of `[chain] websocket`, if one is configured."""
    url = index.config.chain.websocket
    if url is None:
        yield
        return
    tracker = index.chain.tracker
    new_heads = NewHeadSubscription(
        url,
        lambda: waker.wake("index"),
        lambda: PolledHead(tracker.newest, tracker.block_seconds),
        time.monotonic,
    )
    new_heads.start()
    try:
        yield
    finally:
        new_heads.stop()


def check_outcome(index: Index, senders: Senders) -> Cursor | None:
    """Return the last block folded by `run --once`, unless something is in doubt at its end.

    Raises:
        FatalError: the index is halted, or holds blocks that nothing should be derived from.
        TransientError: the outcome of a sent call is unknown.
    """
    with index.store.reading() as uow:
        cursor, halt_reason = uow.cursor.get(), uow.halts.reason()
    if halt_reason is not None:
        raise FatalError(f"not caught up: {halt_reason}")
    unaudited = unaudited_reason(index)
    if unaudited is not None:
        raise FatalError(f"not sure: {unaudited}")
    if senders.unproven_calls:
        raise TransientError(f"not known what became of a call: {senders.unproven_calls[0]}")
    return cursor
