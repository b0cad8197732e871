"""The logger used by all packages, and the import of structlog without rich.

structlog imports rich if it is installed, which takes longer than structlog itself. structlog uses
rich for tracebacks, which `logging_setup` formats itself, as plain text.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_STRUCTLOG, _RICH = "structlog", "rich"


def get_logger() -> "FilteringBoundLogger":
    """Return a logger that uses the configuration of `logging_setup.configure_logging`.

    Without a configuration, the log is written to stderr, because stdout is for results.
    """
    if _STRUCTLOG not in sys.modules:
        import_module("oracle.telemetry.logging_setup").configure_logging("auto", "info")
    return cast("FilteringBoundLogger", sys.modules[_STRUCTLOG].get_logger())


def import_structlog_without_rich() -> None:
    """Import structlog as if rich were not installed.

    Nothing is changed if either is already imported.
    """
    if _STRUCTLOG in sys.modules or _RICH in sys.modules:
        return
    # Importing a module that is None in `sys.modules` raises ImportError.
    sys.modules[_RICH] = None  # type: ignore[assignment]
    try:
        import_module(_STRUCTLOG)
    finally:
        del sys.modules[_RICH]
