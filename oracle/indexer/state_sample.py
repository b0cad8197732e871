"""Stores and describes the newest comparison of the state with a snapshot.

`status` reads only this result, and imports nothing that makes a snapshot.
"""

from dataclasses import dataclass

import msgspec

from oracle.indexer.provenance import get_refold_count
from oracle.store.database import UnitOfWork

# Bookmark of the newest comparison, and maximum number of rows that it lists.
_SAMPLE_KEY = "state_sample"
_MAX_LISTED_ROWS = 5


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """The result of comparing a sample of the state with a refold from a snapshot.

    `block` is the block of the compared state. `differing` lists the rows that differ, by table
    and key.
    """

    block: int
    row_count: int
    differing: tuple[str, ...]


def store_sample_result(uow: UnitOfWork, check: SampleCheck) -> None:
    """Store the result of the newest comparison.

    `status` and the next process use it.
    """
    sample_result = _SampleResult(
        check.block,
        get_refold_count(uow),
        check.differing[:_MAX_LISTED_ROWS],
        len(check.differing),
    )
    uow.bookmarks.set(_SAMPLE_KEY, msgspec.json.encode(sample_result).decode())


def find_state_mismatch(uow: UnitOfWork) -> str | None:
    """Describe the state rows that differ from a fold of the raw rows.

    Return None if they are equal. A comparison from before a rebuild no longer counts.
    """
    sample_text = uow.bookmarks.get(_SAMPLE_KEY)
    if sample_text is None:
        return None
    sample_result = msgspec.json.decode(sample_text, type=_SampleResult)
    if not sample_result.count or sample_result.rebuilds != get_refold_count(uow):
        return None
    return (
        f"{sample_result.count} rows of the state at block {sample_result.block} differ from a "
        f"fold of the stored logs ({', '.join(sample_result.differing)}); list all of them with "
        "`qos-oracle resync verify --half state`, and refold with `qos-oracle resync rebuild`"
    )


class _SampleResult(msgspec.Struct, frozen=True):
    block: int
    rebuilds: int
    differing: tuple[str, ...]
    count: int
