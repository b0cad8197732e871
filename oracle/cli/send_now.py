"""Plans and sends a single call, for commands that perform the daemon's actions manually."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oracle.bindings.inspection import inspect_roots_contract
from oracle.chain.heads import Heads
from oracle.cli.write_session import check_lease_is_free, hold_command_lease, warn_if_leased
from oracle.daemon.compose import Index, get_checked_chain
from oracle.daemon.configured_keys import make_key_opener
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.senders import (
    Reporter,
    get_oracle_address,
    open_reporter,
    open_reporter_contexts,
)
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.txmgr.context import StepResult, describe_dry_run as describe_first_step
from oracle.txmgr.manager import run_step
from oracle.txmgr.nonce_sync import reconcile_nonces

_NOT_SENDABLE_NOW = (
    "the contract rejects the call now, or a call for the same subject is pending; see "
    "`qos-oracle outbox list`"
)
CallPlanner = Callable[[ReporterContexts, Heads], StepResult | None]


@contextmanager
def open_reporter_on_checked_chain(index: Index) -> Iterator[Reporter]:
    """Open the report keys, and check that the endpoints serve the configured chain.

    Raises:
        InputError: no contract is configured, a key cannot be opened, or the chain differs.
        TransientError: no endpoint responds.
    """
    with open_reporter(index, make_key_opener(index.config)) as reporter:
        get_checked_chain(index)
        yield reporter


def plan_and_send_call(reporter: Reporter, command: str, plan: CallPlanner) -> list[StepResult]:
    """Plan and send one call, whose transaction the daemon then completes.

    Raises:
        InputError: the contract differs from the configuration, or no call can be planned.
        FatalError: a daemon holds the lease of this database, and sends such calls itself.
    """
    _check_sending_is_allowed(reporter)
    chain = reporter.index.chain
    with hold_command_lease(reporter.index.store, command) as epoch:
        contexts = open_reporter_contexts(reporter, epoch, unix_seconds)
        contexts.start_embargo_after_restore()
        reconcile_nonces(contexts.account_context)
        planned_step = plan(contexts, chain.fetch_heads())
        if planned_step is None:
            raise InputError(_NOT_SENDABLE_NOW)
        steps = [planned_step]
        while (step := run_step(contexts.account_context, chain.fetch_heads())) is not None:
            steps.append(step)
    return steps


def check_call_can_be_sent(reporter: Reporter, command: str, plan: CallPlanner) -> None:
    """Check that a call can be sent, before the user confirms it.

    Nothing is written.

    Raises:
        InputError: for the same reasons as `plan_and_send_call`.
        FatalError: for the same reasons as `plan_and_send_call`.
    """
    check_lease_is_free(reporter.index.store, command)
    _describe_planned_call(reporter, plan, "")


def describe_dry_run(reporter: Reporter, plan: CallPlanner, default_text: str) -> str:
    """Describe the first call that `plan_and_send_call` would sign, or return `default_text`.

    Nothing is signed or written.

    Raises:
        InputError: for the same reasons as `plan_and_send_call`.
    """
    warn_if_leased(reporter.index.store)
    return _describe_planned_call(reporter, plan, default_text)


def _describe_planned_call(reporter: Reporter, plan: CallPlanner, default_text: str) -> str:
    _check_sending_is_allowed(reporter)
    chain = reporter.index.chain
    with tempfile.TemporaryDirectory(prefix="qos-oracle-") as folder:
        contexts = open_reporter_contexts(reporter, 0, unix_seconds).build_dry_run_contexts(
            Path(folder)
        )
        describe_first_step(lambda: reconcile_nonces(contexts.account_context), default_text)
        description = describe_first_step(
            lambda: plan(contexts, chain.fetch_heads()), default_text
        )
    if description is None:
        raise InputError(_NOT_SENDABLE_NOW)
    return description


def _check_sending_is_allowed(reporter: Reporter) -> None:
    contract = get_oracle_address(reporter.index.config)
    _, mismatches = inspect_roots_contract(
        reporter.account.pool_view, contract, reporter.expected_contract
    )
    if mismatches:
        raise InputError(
            f"the contract differs from the configuration: {mismatches[0].format_line()}"
        )
    with reporter.index.store.read_transaction() as uow:
        halt_reason = uow.halts.find_halt_reason()
    if halt_reason is not None:
        raise InputError(
            f"a halt is active, so nothing is sent: {halt_reason}; see `qos-oracle halt list`"
        )
