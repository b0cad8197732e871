"""Takes one planned call to the endpoints, for commands that do by hand what the daemon does."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from oracle.bindings.inspection import inspected
from oracle.chain.heads import Heads
from oracle.cli.write_session import command_lease, tell_of_lease
from oracle.daemon.app import App
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.txmgr.context import StepResult
from oracle.txmgr.dry_run import dry_run_text as said_by
from oracle.txmgr.manager import TransactionManager
from oracle.txmgr.nonce_sync import reconcile

_NOT_NOW = (
    "the contract does not take it now, or a call about it is on its way: "
    "`qos-oracle outbox list` shows what is"
)
Plan = Callable[[ReporterContexts, Heads], StepResult | None]


def published(app: App, command: str, plan: Plan) -> list[StepResult]:
    """Plan one call and send it; the daemon watches it from there.

    Raises:
        InputError: the contract differs from the configuration, or nothing can be planned now.
        FatalError: a daemon holds the lease of this database; it does all this by itself.
    """
    _check(app)
    with command_lease(app.store, command) as epoch:
        reporter = app.reporter(epoch, unix_seconds)
        reconcile(reporter.tx)
        planned = plan(reporter, app.chain.heads())
        if planned is None:
            raise InputError(_NOT_NOW)
        steps = [planned]
        manager = TransactionManager(reporter.tx)
        while (step := manager.step(app.chain.heads())) is not None:
            steps.append(step)
    return steps


def dry_run_text(app: App, plan: Plan, otherwise: str) -> str:
    """Say what `published` would sign first, else `otherwise`; nothing is signed or written.

    Raises:
        InputError: as `published` does.
    """
    _check(app)
    tell_of_lease(app.store)
    with tempfile.TemporaryDirectory(prefix="qos-oracle-") as folder:
        reporter = app.reporter(0, unix_seconds).dry(Path(folder))
        said_by(lambda: reconcile(reporter.tx), otherwise)
        said = said_by(lambda: plan(reporter, app.chain.heads()), otherwise)
    if said is None:
        raise InputError(_NOT_NOW)
    return said


def _check(app: App) -> None:
    _, found = inspected(app.publisher.lines, app.oracle_address, app.expected)
    if found:
        raise InputError(f"the contract is not as configured: {found[0].line()}")
    with app.store.reading() as uow:
        stopped = uow.halts.reason()
    if stopped is not None:
        raise InputError(f"nothing is sent: {stopped}; `qos-oracle halt list` shows it")
