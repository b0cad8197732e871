"""The optional native code, package `oracle_native`, built from native/.

It contains the few loops that dominate selection and proofs. Every function has a Python
equivalent with the same bytes beside its one caller: without the package all results are the same,
only slower (decision 0219).
"""

from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

# The required version; functions of another version may have another interface.
_VERSION = 1
Columns = tuple[
    "array[int]", "array[int]", "array[int]", "array[int]", "array[int]", "array[int]",
    bytearray, "array[int]", bytearray,
]  # fmt: skip


class Native(Protocol):
    """The package's interface. Columns have type Q (`sinces`: q), numbers are in 10^-18."""

    VERSION: int

    def keccak(self, content: bytes, /) -> bytes:
        """Return the Keccak-256 hash."""

    def receipts_root(self, receipts: Sequence[object], /) -> bytes | None:
        """Return the root of a block's `ProvenReceipt`s, or None to use the Python code."""

    def stake_scores(self, stakes: list[int], largest: int, scores: "array[int]", /) -> bool:
        """Write sqrt(stake / largest) of each stake; return False if a stake is too large.

        The scores are invalid in that case.
        """

    def weigh(self, columns: Columns, time: int, decay_table: bytes, least: int, /) -> None:
        """Write the weights and the offered flags of the requested places."""

    def total(self, weights: "array[int]", /) -> int:
        """Return the sum of the weights."""

    def place(self, weights: "array[int]", x: int, /) -> int:
        """Return the first place at which the cumulative weight exceeds `x` < total."""


def _load_native() -> Native | None:
    try:
        module = cast("Native", import_module("oracle_native"))
    except ImportError:
        return None
    return module if module.VERSION == _VERSION else None


native: Native | None = _load_native()
