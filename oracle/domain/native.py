"""The native code, where its package is installed: `oracle_native`, made of native/.

It has the few loops that selection and proofs wait for.
Every function of it has its equal in Python, with the same bytes, beside the one place that asks
for it: without the package everything is as it is with it, and slower (decision 0219).
"""

from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

# What it must say of itself: of another version the functions may take or give something else.
_VERSION = 1
Columns = tuple[
    "array[int]", "array[int]", "array[int]", "array[int]", "array[int]", "array[int]",
    bytearray, "array[int]", bytearray,
]  # fmt: skip


class Native(Protocol):
    """What the package has. Columns are of type Q (`sinces`: q), numbers in units of 10^-18."""

    VERSION: int

    def keccak(self, content: bytes, /) -> bytes:
        """Return the Keccak-256 hash."""

    def receipts_root(self, receipts: Sequence[object], /) -> bytes | None:
        """Return the root of a block's `ProvenReceipt`s; None: ask the Python code."""

    def stake_scores(self, stakes: list[int], largest: int, scores: "array[int]", /) -> bool:
        """Write sqrt(stake / largest) of each; False: a stake does not fit, nothing is true."""

    def weigh(self, columns: Columns, time: int, decay_table: bytes, least: int, /) -> None:
        """Write weights and offers of the places that are asked for."""

    def total(self, weights: "array[int]", /) -> int:
        """Return the sum."""

    def place(self, weights: "array[int]", x: int, /) -> int:
        """Return the first place with which the sum exceeds `x`, which is below the total."""


def _load_native() -> Native | None:
    try:
        found = cast("Native", import_module("oracle_native"))
    except ImportError:
        return None
    return found if found.VERSION == _VERSION else None


native: Native | None = _load_native()
