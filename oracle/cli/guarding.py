"""Keeps what is in this process's memory there: no core dumps, no secrets in tracebacks.

Linux and macOS; elsewhere there are no core dumps to switch off.
"""

import sys
import threading
import traceback
from types import TracebackType

from oracle.telemetry.logging_setup import without_secrets

try:
    import resource
except ImportError:  # pragma: no cover - no such thing there
    resource = None  # type: ignore[assignment]  # which is what is asked below


def guard_process() -> None:
    """Do both, for all threads; before the first key is opened."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.excepthook = _tell
    threading.excepthook = _tell_of_thread


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a bug's traceback as Python would, but for what is secret in it."""
    text = "".join(traceback.format_exception(kind, error, trace))
    print(without_secrets(text), end="", file=sys.stderr)


def _tell_of_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_value is not None and not issubclass(told.exc_type, SystemExit):
        _tell(told.exc_type, told.exc_value, told.exc_traceback)
