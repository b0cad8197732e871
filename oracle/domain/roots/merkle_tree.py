"""A Merkle tree in one block of memory, whose leaves keep their indexes.

The tree has room for 2^depth leaves. Missing leaves are zero bytes, and each pair of hashes is
hashed in ascending order, so that `MerkleProof.verify` of OpenZeppelin needs no directions. The
root equals that of `SimpleMerkleTree.of(hashes padded with zeros, {sortLeaves: false})` of the npm
package @openzeppelin/merkle-tree, which generated the test vectors.
"""

from array import array
from collections.abc import Sequence

from oracle.domain.native import native
from oracle.domain.roots.leaves import HASH_BYTES, Keccak

_EMPTY = bytes(HASH_BYTES)
_PAIR_BYTES = 2 * HASH_BYTES
# This is a power of two, like the widths of all levels.
_MAX_COPIES_PER_CHUNK = 1 << 15


class MerkleTree:
    """A Merkle tree that needs 64 bytes of hashes and one flag per leaf.

    Node 1 is the root, nodes 2i and 2i + 1 are the children of node i, and node 2^depth + p is the
    leaf with index p. The root of a tree without leaves is zero. The hashes above changed leaves
    are computed only when they are read.
    """

    def __init__(self, leaf_hashes: bytes, keccak: Keccak) -> None:
        """Create a tree from concatenated leaf hashes, in index order."""
        self._keccak = keccak
        self._leaf_count = self._depth = 0
        self._hashes = bytearray(_PAIR_BYTES)
        # A flag is set if its leaf has changed since the hashes above it were computed.
        self._changed = bytearray(1)
        self._has_changed = False
        self.append_leaves(leaf_hashes)

    @property
    def leaf_count(self) -> int:
        return self._leaf_count

    @property
    def depth(self) -> int:
        """The number of hashes in a proof."""
        return self._depth

    @property
    def root(self) -> bytes:
        return self._get_node_hash(1)

    def get_subtree_root(self, depth: int, index: int) -> bytes:
        """Return the root of a subtree of 2^depth leaves.

        The subtree begins at leaf `index` * 2^depth. If the tree has fewer levels than `depth`,
        its only subtree is the tree itself.

        Raises:
            IndexError: there is no such subtree.
        """
        if not 0 <= index < max(1, self._leaf_count + (1 << depth) - 1 >> depth):
            raise IndexError(f"there is no subtree {index} of {1 << depth} leaves")
        return self._get_node_hash((1 << max(0, self._depth - depth)) + index)

    def append_leaves(self, leaf_hashes: bytes) -> None:
        """Append leaves after the last leaf."""
        first_index = self._leaf_count
        leaf_count = len(leaf_hashes) // HASH_BYTES
        if leaf_count == 0:
            return
        self._has_changed = True
        self._extend_to_leaf_count(first_index + leaf_count)
        byte_offset = HASH_BYTES * ((1 << self._depth) + first_index)
        self._hashes[byte_offset : byte_offset + len(leaf_hashes)] = leaf_hashes
        self._changed[first_index : first_index + leaf_count] = b"\1" * leaf_count

    def set_leaves(self, indexes: Sequence[int], leaf_hashes: bytes) -> list[int]:
        """Replace or add the leaves at `indexes`.

        If an index is repeated, the last hash counts. An index after the last leaf extends the
        tree, and leaves that it skips are zero until they are set. The result has the positions,
        in `indexes`, of the leaves whose hash has changed.

        Raises:
            ValueError: there are not as many hashes as indexes.
        """
        if len(leaf_hashes) != HASH_BYTES * len(indexes):
            raise ValueError(
                f"expected {len(indexes)} hashes of {HASH_BYTES} bytes, "
                f"got {len(leaf_hashes)} bytes"
            )
        if not indexes:
            return []
        self._extend_to_leaf_count(max(indexes) + 1)
        changed_positions = self._replace_leaves(indexes, leaf_hashes)
        self._has_changed = self._has_changed or bool(changed_positions)
        return changed_positions

    def _replace_leaves(self, indexes: Sequence[int], leaf_hashes: bytes) -> list[int]:
        hashes = self._hashes
        changed = self._changed
        width = 1 << self._depth
        if native is not None:
            return native.set_leaves(hashes, changed, array("I", indexes), leaf_hashes)
        changed_positions = []
        for position, index in enumerate(indexes):
            byte_offset = HASH_BYTES * (width + index)
            source_offset = HASH_BYTES * position
            leaf_hash = leaf_hashes[source_offset : source_offset + HASH_BYTES]
            if hashes[byte_offset : byte_offset + HASH_BYTES] != leaf_hash:
                hashes[byte_offset : byte_offset + HASH_BYTES] = leaf_hash
                changed[index] = 1
                changed_positions.append(position)
        return changed_positions

    def build_proof(self, index: int) -> list[bytes]:
        """Build the proof of a leaf: the sibling hashes from the leaf to the root.

        Raises:
            IndexError: there is no leaf at this index.
        """
        node_index = self._get_leaf_node_index(index)
        proof = []
        while node_index > 1:
            proof.append(self._get_node_hash(node_index ^ 1))
            node_index >>= 1
        return proof

    def _extend_to_leaf_count(self, leaf_count: int) -> None:
        """Extend the tree with empty leaves to `leaf_count` leaves."""
        old_count = self._leaf_count
        self._leaf_count = max(self._leaf_count, leaf_count)
        depth = (max(1, self._leaf_count) - 1).bit_length()
        if depth == self._depth:
            return
        self._has_changed = True
        leaf_offset = HASH_BYTES << self._depth
        leaf_bytes = self._hashes[leaf_offset : leaf_offset + HASH_BYTES * old_count]
        # Release the old tree before creating the new one, which is twice as large.
        self._hashes = bytearray()
        self._hashes = bytearray(_PAIR_BYTES << depth)
        self._depth = depth
        empty_hash = _EMPTY
        for level in range(depth - 1, -1, -1):
            empty_hash = self._keccak(empty_hash + empty_hash)
            _fill(self._hashes, HASH_BYTES << level, empty_hash, 1 << level)
        byte_offset = HASH_BYTES << depth
        self._hashes[byte_offset : byte_offset + len(leaf_bytes)] = leaf_bytes
        old_width = len(self._changed)
        self._changed = bytearray(b"\1" * old_width + bytes((1 << depth) - old_width))

    def hash_changed(self) -> None:
        """Compute the hashes above the leaves that changed since the last call."""
        if not self._has_changed:
            return
        self._has_changed = False
        if native is not None:
            native.hash_changed_parents(self._hashes, self._changed)
            return
        width = 1 << self._depth
        changed_parents = {width + index >> 1 for index, flag in enumerate(self._changed) if flag}
        while changed_parents and 0 not in changed_parents:
            for node in changed_parents:
                byte_offset = _PAIR_BYTES * node
                left_hash = bytes(self._hashes[byte_offset : byte_offset + HASH_BYTES])
                right_hash = bytes(
                    self._hashes[byte_offset + HASH_BYTES : byte_offset + _PAIR_BYTES]
                )
                self._hashes[HASH_BYTES * node : HASH_BYTES * (node + 1)] = hash_pair(
                    left_hash, right_hash, self._keccak
                )
            changed_parents = {node >> 1 for node in changed_parents}
        self._changed = bytearray(width)

    def _get_leaf_node_index(self, index: int) -> int:
        if not 0 <= index < self._leaf_count:
            raise IndexError(f"there is no leaf at index {index}")
        return (1 << self._depth) + index

    def _get_node_hash(self, node: int) -> bytes:
        self.hash_changed()
        return bytes(self._hashes[HASH_BYTES * node : HASH_BYTES * (node + 1)])


def _fill(hashes: bytearray, first: int, content: bytes, count: int) -> None:
    """Fill a buffer with `count` copies of `content`, starting at offset `first`.

    The copies are written in parts of up to 1 MiB.
    """
    chunk_copies = min(count, _MAX_COPIES_PER_CHUNK)
    chunk = content * chunk_copies
    for offset in range(0, count, chunk_copies):
        write_offset = first + len(content) * offset
        hashes[write_offset : write_offset + len(chunk)] = chunk


def compute_empty_root(depth: int, keccak: Keccak) -> bytes:
    """Return the root of an empty tree with room for 2^depth leaves."""
    empty_root = _EMPTY
    for _ in range(depth):
        empty_root = keccak(empty_root + empty_root)
    return empty_root


def hash_pair(first: bytes, second: bytes, keccak: Keccak) -> bytes:
    """Hash two hashes in ascending order (OpenZeppelin's commutative hash)."""
    return keccak(first + second if first <= second else second + first)


def compute_root(leaf_hash: bytes, proof: Sequence[bytes], keccak: Keccak) -> bytes:
    """Compute the root from a leaf hash and its proof, like OpenZeppelin's MerkleProof."""
    for sibling in proof:
        leaf_hash = hash_pair(leaf_hash, sibling, keccak)
    return leaf_hash
