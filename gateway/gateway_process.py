"""The service from start to end: settings, database, checks, HTTP."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gateway.check_schedule import ChainCheck, CheckSchedule, StakeWatch
from gateway.gateway_config import GatewayConfig
from gateway.node_checks import CheckedNode, NodeChecks
from gateway.selection_service import SelectionService, unix_ms
from gateway.web.gateway_app import GatewayApp
from gateway.web.gateway_calls import GatewayCalls
from oracle.daemon.lease.lease_keeper import leading, take
from oracle.daemon.startup import freeze_garbage
from oracle.daemon.stopping import StopSignal
from oracle.daemon.web.http_server import serving
from oracle.errors import FatalError, InputError
from oracle.store.database import Store

_COMMAND = "qos-oracle gateway"


@contextmanager
def gateway_serving(config: GatewayConfig, token: str, stop: StopSignal) -> Iterator[str]:
    """Serve during the `with`; yields the address. `stop` is set if the database is lost.

    Raises:
        InputError: the port is in use, the database belongs to a daemon, or cannot be used.
        LeaseHeldError: another gateway works on this database.
        FatalError: at the end: another gateway has taken over, or nothing could be written any
            more.
    """
    with ExitStack() as opened:
        store = opened.enter_context(Store.open(config.database.url, create=True))
        _refuse_daemons(store)
        epoch = take(store, _COMMAND)
        store.fence(epoch)
        opened.enter_context(leading(store, epoch, stop.end))
        service = _service(config, store, stop)
        opened.callback(service.writer.end)
        schedule = _schedule(config, service, opened)
        service.check_soon = schedule.run_soon
        app = GatewayApp(GatewayCalls(service, unix_ms), token)
        # The seeds of the first draws are stored before any node is drawn by them.
        service.epochs()
        service.writer.flush()
        # An epoch begins in time, with or without requests.
        service.writer.start(service.epochs)
        freeze_garbage()
        opened.callback(schedule.end)
        schedule.start()
        yield opened.enter_context(serving(app, config.gateway.listener))
        if service.writer.end_reason is not None:
            raise FatalError(f"nothing is written any more: {service.writer.end_reason}")


def _refuse_daemons(store: Store) -> None:
    with store.reading() as uow:
        if uow.identity.get() is not None:
            raise InputError("database.url: is a daemon's database; name one of its own")


def _service(config: GatewayConfig, store: Store, stop: StopSignal) -> SelectionService:
    checks = {
        chain: NodeChecks(config.check_rules(chain), {node: CheckedNode() for node in told.urls})
        for chain, told in config.checks.items()
    }
    return SelectionService(store, config.policy.rules, checks, stop.end)


def _schedule(
    config: GatewayConfig, service: SelectionService, opened: ExitStack
) -> CheckSchedule:
    chains = [ChainCheck(chain, told, service) for chain, told in config.checks.items()]
    stakes = None
    if config.stakes.database_url is not None:
        daemons = opened.enter_context(Store.open(config.stakes.database_url))
        stakes = StakeWatch(daemons, config.stakes.every_seconds, service)
    return CheckSchedule(chains, stakes)
