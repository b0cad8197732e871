"""Which fold of which profile made what is stored, and whether all raw rows are in it."""

from oracle.chain.protocols import LogReader
from oracle.domain.fold.fold import FOLD_VERSION
from oracle.store.database import UnitOfWork

_FOLDED_BY = "folded_by_version"
_STALE = "fold_is_stale"


def note_folded(uow: UnitOfWork, reader: LogReader) -> None:
    """Write down that all raw rows are folded, by this version and as this profile reads them."""
    uow.progress.set(_FOLDED_BY, _sign(reader))
    uow.progress.clear(_STALE)


def note_stale(uow: UnitOfWork) -> None:
    """Write down that rows came in below the cursor: the state is not that of all rows."""
    uow.progress.set(_STALE, "rows came in")


def why_refold(uow: UnitOfWork, reader: LogReader) -> str | None:
    """Return why everything has to be folded anew; None: it has not."""
    if uow.cursor.get() is None:
        return None
    if uow.progress.get(_STALE) is not None:
        return "what was missing is there now"
    # Version 1 did not say so.
    known = uow.progress.get(_FOLDED_BY) or "1"
    if known != _sign(reader):
        return f"folded by {_shown(known)}, and this is {_shown(_sign(reader))}"
    return None


def _sign(reader: LogReader) -> str:
    return f"{FOLD_VERSION} {reader.identity}"


def _shown(sign: str) -> str:
    version, _, profile = sign.partition(" ")
    return f"version {version} of the fold" + (f" with the profile {profile}" if profile else "")
