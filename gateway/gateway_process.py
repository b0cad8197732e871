"""Starts and stops the service with its database, lease, checks and HTTP listener."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gateway.check_schedule import ChainCheck, CheckSchedule, StakeWatch
from gateway.gateway_app import GatewayApp
from gateway.gateway_calls import GatewayCalls
from gateway.gateway_config import GatewayConfig
from gateway.node_checks import CheckedNode, NodeChecks
from gateway.selection_service import SelectionService, unix_ms
from oracle.daemon.lease_keeper import acquire_lease, keep_lease
from oracle.daemon.startup import tune_garbage_collection
from oracle.daemon.stopping import StopSignal
from oracle.daemon.web.http_server import serve_app
from oracle.errors import FatalError, InputError
from oracle.store.database import Store

_COMMAND = "qos-oracle gateway"


@contextmanager
def serve_gateway(config: GatewayConfig, token: str, stop: StopSignal) -> Iterator[str]:
    """Run the service within the context, and yield its address.

    `stop` is requested if another process takes over the database.

    Raises:
        InputError: the port is in use, or the database is a daemon's or cannot be used.
        LeaseHeldError: another gateway works on this database.
        FatalError: at the end of the block, if another gateway took over the database or the
            writer ended.
    """
    with ExitStack() as exit_stack:
        store = exit_stack.enter_context(Store.open(config.database.url, create=True))
        _reject_daemon_database(store)
        epoch = acquire_lease(store, _COMMAND)
        store.set_fencing_epoch(epoch)
        exit_stack.enter_context(keep_lease(store, epoch, stop.request_stop))
        service = _open_service(config, store, stop)
        exit_stack.callback(service.writer.stop_writing)
        schedule = _open_check_schedule(config, service, exit_stack)
        service.request_checks = schedule.request_rounds
        app = GatewayApp(GatewayCalls(service, unix_ms), token)
        # Store the seeds before a draw uses them for the first time.
        service.list_ended_and_open_epochs()
        service.writer.write_queued_records()
        # The writer also creates each epoch in time, even if there are no requests.
        service.writer.start_writing(service.list_ended_and_open_epochs)
        tune_garbage_collection()
        exit_stack.callback(schedule.stop_all_checks)
        schedule.start_all_checks()
        yield exit_stack.enter_context(serve_app(app, config.gateway, config.gateway.port))
        if service.writer.end_reason is not None:
            raise FatalError(f"database writes have stopped: {service.writer.end_reason}")


def _reject_daemon_database(store: Store) -> None:
    with store.read_transaction() as uow:
        if uow.identity.get() is not None:
            raise InputError(
                "database.url: this database belongs to a daemon; the gateway needs a separate one"
            )


def _open_service(config: GatewayConfig, store: Store, stop: StopSignal) -> SelectionService:
    checks = {
        chain: NodeChecks(
            config.build_check_rules(chain), {node: CheckedNode() for node in checks_section.urls}
        )
        for chain, checks_section in config.checks.items()
    }
    return SelectionService(store, config.policy.rules, checks, stop.request_stop)


def _open_check_schedule(
    config: GatewayConfig, service: SelectionService, exit_stack: ExitStack
) -> CheckSchedule:
    chain_checks = [
        ChainCheck(chain, checks_section, service)
        for chain, checks_section in config.checks.items()
    ]
    stake_watch = None
    if config.stakes.database_url is not None:
        daemon_store = exit_stack.enter_context(Store.open(config.stakes.database_url))
        stake_watch = StakeWatch(daemon_store, config.stakes.every_seconds, service)
    return CheckSchedule(chain_checks, stake_watch)
