"""A context for dry runs: every check runs as usual, and nothing is signed, written or sent.

The production code runs in this context, so that a dry run reports what the real run would do.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NoReturn

from typing_extensions import override

from oracle.signing.local import DryRunSignatureError
from oracle.txmgr.context import AccountContext, StepResult


class WriteAttemptedError(Exception):
    """Raised when a dry run reaches the point where the real run would write or send."""


@dataclass(frozen=True, slots=True)
class DryRunContext(AccountContext):
    """A context that raises on every write or send; its keys raise on every signature."""

    @override
    def write_transaction(self) -> NoReturn:
        raise WriteAttemptedError

    @override
    def check_can_send(self) -> NoReturn:
        raise WriteAttemptedError


def build_dry_run_context(context: AccountContext) -> DryRunContext:
    """Return a copy of the context for a dry run."""
    values_by_field = {field.name: getattr(context, field.name) for field in fields(context)}
    return DryRunContext(
        **{**values_by_field, "sender_account": context.sender_account.to_read_only()}
    )


def describe_dry_run(action: Callable[[], StepResult | None], fallback_text: str) -> str | None:
    """Return what an action would sign, else `fallback_text`; None if it would do nothing.

    Raises:
        OracleError: whatever the action raises.
    """
    try:
        step = action()
    except DryRunSignatureError as error:
        return str(error)
    except WriteAttemptedError:
        return fallback_text
    return None if step is None else f"{step.action} {step.detail}".rstrip()
