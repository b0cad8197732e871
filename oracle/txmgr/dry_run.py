"""A context for dry runs: every check runs as usual, and nothing is signed, written or sent.

The production code runs in it, so that a dry run cannot report anything else than the real run.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NoReturn

from typing_extensions import override

from oracle.signing.local import SignatureWantedError
from oracle.txmgr.context import StepResult, TxContext


class WriteWantedError(Exception):
    """Raised when a dry run reaches the point where the real run would write or send."""


@dataclass(frozen=True, slots=True)
class DryRunContext(TxContext):
    """A context that raises on every write or send; its keys raise on every signature."""

    @override
    def writing(self) -> NoReturn:
        raise WriteWantedError

    @override
    def before_sending(self) -> NoReturn:
        raise WriteWantedError


def dry_context(context: TxContext) -> DryRunContext:
    """Return a copy of the context for a dry run."""
    given = {field.name: getattr(context, field.name) for field in fields(context)}
    return DryRunContext(**{**given, "publisher": context.publisher.muted()})


def dry_run_text(act: Callable[[], StepResult | None], otherwise: str) -> str | None:
    """Return what an action would sign, else `otherwise`; return None if it would do nothing.

    Raises:
        OracleError: whatever the action raises.
    """
    try:
        step = act()
    except SignatureWantedError as wanted:
        return str(wanted)
    except WriteWantedError:
        return otherwise
    return None if step is None else f"{step.did} {step.detail}".rstrip()
