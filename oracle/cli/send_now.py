"""Sends one planned call, for commands that do manually what the daemon does by itself."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oracle.bindings.inspection import inspected
from oracle.chain.heads import Heads
from oracle.cli.write_session import command_lease, tell_of_lease
from oracle.daemon.compose import Index, check_chain_of
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.senders import (
    Reporter,
    key_opener,
    open_reporter,
    oracle_address,
    reporter_contexts,
)
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


@contextmanager
def opened_reporter(index: Index) -> Iterator[Reporter]:
    """Open the report keys and check that the endpoints serve the configured chain.

    Raises:
        InputError: no contract is configured, a key cannot be opened, or the chain differs.
        TransientError: no endpoint responds.
    """
    with open_reporter(index, key_opener(index.config)) as reporter:
        check_chain_of(index)
        yield reporter


def published(reporter: Reporter, command: str, plan: Plan) -> list[StepResult]:
    """Plan one call and send it; the daemon tracks its transaction from there.

    Raises:
        InputError: the contract differs from the configuration, or no call can be planned now.
        FatalError: a daemon holds the lease of this database and does the same by itself.
    """
    _check(reporter)
    chain = reporter.index.chain
    with command_lease(reporter.index.store, command) as epoch:
        contexts = reporter_contexts(reporter, epoch, unix_seconds)
        reconcile(contexts.tx)
        planned = plan(contexts, chain.heads())
        if planned is None:
            raise InputError(_NOT_NOW)
        steps = [planned]
        manager = TransactionManager(contexts.tx)
        while (step := manager.step(chain.heads())) is not None:
            steps.append(step)
    return steps


def dry_run_text(reporter: Reporter, plan: Plan, otherwise: str) -> str:
    """Return a description of the first call that `plan_and_send` would sign, or else `otherwise`.

    Nothing is signed or written.

    Raises:
        InputError: for the same reasons as `plan_and_send`.
    """
    _check(reporter)
    chain = reporter.index.chain
    tell_of_lease(reporter.index.store)
    with tempfile.TemporaryDirectory(prefix="qos-oracle-") as folder:
        contexts = reporter_contexts(reporter, 0, unix_seconds).dry(Path(folder))
        said_by(lambda: reconcile(contexts.tx), otherwise)
        said = said_by(lambda: plan(contexts, chain.heads()), otherwise)
    if said is None:
        raise InputError(_NOT_NOW)
    return said


def _check(reporter: Reporter) -> None:
    contract = oracle_address(reporter.index.config)
    _, found = inspected(reporter.account.lines, contract, reporter.expected)
    if found:
        raise InputError(f"the contract is not as configured: {found[0].line()}")
    with reporter.index.store.reading() as uow:
        stopped = uow.halts.reason()
    if stopped is not None:
        raise InputError(f"nothing is sent: {stopped}; `qos-oracle halt list` shows it")
