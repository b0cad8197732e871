"""A context in which all is looked at as ever, and nothing is signed, written or sent (dry runs).

The real code runs there, so that it cannot say something else than it does.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NoReturn

from typing_extensions import override

from oracle.signing.local import SignatureWantedError
from oracle.txmgr.context import StepResult, TxContext


class WriteWantedError(Exception):
    """A dry run has come to what the real one would write down, or send."""


@dataclass(frozen=True, slots=True)
class DryRunContext(TxContext):
    """Stops whoever wants to write or send; its keys stop whoever wants a signature."""

    @override
    def writing(self) -> NoReturn:
        raise WriteWantedError

    @override
    def before_sending(self) -> NoReturn:
        raise WriteWantedError


def dry_context(context: TxContext) -> DryRunContext:
    """Return the same account's context for a dry run."""
    given = {field.name: getattr(context, field.name) for field in fields(context)}
    return DryRunContext(**{**given, "publisher": context.publisher.muted()})


def dry_run_text(act: Callable[[], StepResult | None], otherwise: str) -> str | None:
    """Say what an act in such a context would sign, else `otherwise`; None: it would do nothing.

    Raises:
        OracleError: whatever the act raises.
    """
    try:
        step = act()
    except SignatureWantedError as wanted:
        return str(wanted)
    except WriteWantedError:
        return otherwise
    return None if step is None else f"{step.did} {step.detail}".rstrip()
