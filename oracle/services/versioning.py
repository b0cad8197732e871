"""Which version of the program's fold made what is stored, and whether all raw rows are in it."""

from oracle.domain.fold import FOLD_VERSION
from oracle.store.store import Unit

_VERSION = "fold_version"
_STALE = "fold_is_stale"
# What databases were folded by that do not say it.
_FIRST_VERSION = "1"


def note_folded(unit: Unit) -> None:
    """Write down that all raw rows are folded, by this version of the program."""
    unit.progress.set(_VERSION, str(FOLD_VERSION))
    unit.progress.clear(_STALE)


def note_stale(unit: Unit) -> None:
    """Write down that rows came in below the cursor: the state is not that of all rows."""
    unit.progress.set(_STALE, "rows came in")


def why_refold(unit: Unit) -> str | None:
    """Return why everything has to be folded anew; None: it has not."""
    if unit.cursor.get() is None:
        return None
    if unit.progress.get(_STALE) is not None:
        return "what was missing is there now"
    known = unit.progress.get(_VERSION) or _FIRST_VERSION
    if known != str(FOLD_VERSION):
        return f"folded by version {known} of the fold, this is version {FOLD_VERSION}"
    return None
