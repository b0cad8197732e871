"""Loads the optional native package `oracle_native`, built from native/.

The package contains the few loops that take most of the time of selection, proofs and roots. For
each function, Python code with identical results is next to its only caller, so everything also
works without the package, but more slowly (decision 0219).
"""

from array import array
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from typing_extensions import Buffer

# Only this version is used, because the interface of another may differ.
REQUIRED_VERSION = 5
Columns = tuple[
    "array[int]", "array[int]", "array[int]", "array[int]", "array[int]", "array[int]",
    bytearray, "array[int]", bytearray,
]  # fmt: skip

Row = TypeVar("Row", bound=tuple[object, ...])

# The addresses, the first topics, and the (address, topic) pairs. Pairs with the first address
# come first.
NativeFilter: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]
# The log class, the index of each source, and the lists to which logs and rows are appended.
NativeTarget: TypeAlias = tuple[type, dict[Any, int], list[Any], list[Any]]


class Native(Protocol):
    """The interface of the native package.

    Columns are arrays of type Q (`sinces`: q); numbers are in units of 10^-18.
    """

    VERSION: int

    def keccak(self, content: bytes, /) -> bytes:
        """Return the Keccak-256 hash of the content (32 bytes)."""

    def read_logs(
        self,
        response: Buffer,
        log_filter: NativeFilter,
        first: int,
        last: int,
        target: NativeTarget,
        /,
    ) -> bool:
        """Append the logs of an `eth_getLogs` response to `target`.

        Rows have the form that `LogTable` uses. The result is False, and nothing is appended, if
        only the Python code can read the response.
        """

    def read_receipts(
        self,
        receipts: Buffer,
        tx_hashes: Buffer,
        log_filter: NativeFilter,
        header: tuple[int, str, int, str],
        target: NativeTarget,
        /,
    ) -> bytes | None:
        """Append the matching logs of a block's receipts to `target`.

        The result has the statuses of all receipts. `header` is the number, hash, time and
        receipts root of the block. The result is None, and nothing is appended, if the receipts
        have another root or hash, or if only the Python code can read them.
        """

    def sum_row_hashes(
        self,
        rows: list[Any],
        blocks: dict[int, bytes],
        sources: list[bytes],
        span_blocks: int,
        /,
    ) -> list[tuple[int, int, bytes]] | None:
        """Sum the row hashes of each run of consecutive rows in the same span.

        The result has (span, row count, hash sum) for each run. `blocks` and `sources` are the
        encoded values that the rows share. The result is None if only the Python code can sum
        these rows.
        """

    def encode_leaves(
        self,
        rows: list[Row],
        rules: tuple[int, bool, int, int, bool],
        time: int,
        decay_table: bytes,
        /,
    ) -> tuple[bytes, list[Row]]:
        """Encode rows as leaves, and also return the rows that only Python code can encode.

        The columns are those of `oracle.domain.roots.node_leaves.LeafRow`. `rules` are the
        exclusion threshold, whether only a stored exclusion counts, the best score, the long-term
        score of a new node, and whether a node with a mean of 0 counts as new.
        """

    def hash_leaves(self, leaves: bytes, leaf_bytes: int, /) -> bytes:
        """Return the double hashes of leaves of `leaf_bytes` bytes each."""

    def hash_changed_parents(self, tree: bytearray, changed: bytearray, /) -> None:
        """Recompute all hashes above the leaves whose flags are set, and clear the flags.

        `tree` has 64 bytes for each flag, as in `MerkleTree`.
        """

    def set_leaves(
        self, tree: bytearray, changed: bytearray, indexes: "array[int]", hashes: bytes, /
    ) -> list[int]:
        """Write hashes at the given indexes, and flag the leaves that change.

        The result has the positions of these leaves in `indexes`, which is an array of type I.
        `tree` and `changed` are as in `hash_changed_parents`.
        """

    def set_lanes(
        self, lanes: "array[int]", seats: "array[int]", new_lanes: "array[int]", /
    ) -> tuple[int, int, int, list[int]]:
        """Write new lanes at the given seats, and return the changes of the totals.

        The result has the increases of the number of leaves, of the number of nodes that may be
        selected, and of the sum of weights, and the indexes of the words that change, with
        repetitions. Lanes are arrays of type H; `seats` is an array of type I.
        """

    def encode_lane_words(self, indexes: "array[int]", lanes: "array[int]", /) -> bytes:
        """Return the encoded leaves of the lane words at the given indexes.

        `indexes` is an array of type I. `lanes` has the lanes of all seats, an array of type H.
        """

    def compute_stake_scores(
        self, stakes: list[int], largest: int, scores: "array[int]", /
    ) -> bool:
        """Compute sqrt(stake / largest) for each stake, and write it to `scores`.

        The result is False if a stake is too large; the scores are then invalid.
        """

    def compute_weights(
        self, columns: Columns, time: int, decay_table: bytes, min_weight: int, /
    ) -> None:
        """Write the weights and the `offered` flags of the flagged rows.

        A weight is at least `min_weight`. The last three columns are the flags of the rows, the
        weights and the `offered` flags.
        """

    def sum_weights(self, weights: "array[int]", /) -> int:
        """Return the sum of the weights."""

    def find_weighted_index(self, weights: "array[int]", x: int, /) -> int:
        """Return the first index whose cumulative weight exceeds `x`.

        `x` must be below the total weight.
        """


def _load_native_package() -> tuple[Native | None, int | None]:
    """Load the native package, or return the version of one that cannot be used."""
    try:
        module = cast("Native", import_module("oracle_native"))
    except ImportError:
        return None, None
    if module.VERSION != REQUIRED_VERSION:
        return None, module.VERSION
    return module, None


native: Native | None
ignored_version: int | None
native, ignored_version = _load_native_package()
