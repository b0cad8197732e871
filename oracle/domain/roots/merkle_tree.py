"""A Merkle tree in one block of memory, whose leaves keep their indexes.

The tree has room for 2^depth leaves. Missing leaves are zero bytes, and each pair of hashes is
hashed in ascending order, so that `MerkleProof.verify` of OpenZeppelin needs no directions. The
root equals that of `SimpleMerkleTree.of(hashes padded with zeros, {sortLeaves: false})` of the npm
package @openzeppelin/merkle-tree, which generated the test vectors.
"""

from collections.abc import Iterable, Mapping, Sequence

from oracle.domain.roots.leaves import HASH_BYTES, Keccak

_EMPTY = bytes(HASH_BYTES)
_PAIR_BYTES = 2 * HASH_BYTES
# From this share of changed leaves on, hashing all pairs is faster than finding the changed ones.
_REBUILD_FROM_ONE_IN = 4


class MerkleTree:
    """The hashes of all nodes of the tree, 64 bytes for each leaf.

    Node 1 is the root, nodes 2i and 2i + 1 are the children of node i, and node 2^depth + p is the
    leaf with index p. The root of a tree without leaves is zero.
    """

    def __init__(self, leaf_hashes: Sequence[bytes], keccak: Keccak) -> None:
        """Build the tree of these leaves, in order of their indexes."""
        self._keccak = keccak
        self._hashes = bytearray()
        self._leaf_count = self._depth = 0
        self._build_tree(b"".join(leaf_hashes), len(leaf_hashes))

    @property
    def leaf_count(self) -> int:
        return self._leaf_count

    @property
    def depth(self) -> int:
        """The number of hashes in a proof."""
        return self._depth

    @property
    def root(self) -> bytes:
        return self._get_hash(1)

    def get_leaf(self, index: int) -> bytes:
        """Return the hash of the leaf at an index. Raises IndexError if there is no such leaf."""
        return self._get_hash(self._find_leaf_node(index))

    def get_subtree_root(self, depth: int, index: int) -> bytes:
        """Return the hash of the leaves from `index` * 2^depth on, 2^depth of them.

        The only subtree of a tree that is not as deep is the tree itself.

        Raises:
            IndexError: there is no such subtree.
        """
        if not 0 <= index < max(1, self._leaf_count + (1 << depth) - 1 >> depth):
            raise IndexError(f"there is no subtree {index} of {1 << depth} leaves")
        return self._get_hash((1 << max(0, self._depth - depth)) + index)

    def set_leaves(self, hash_by_index: Mapping[int, bytes]) -> None:
        """Replace leaves, and append leaves after the last one.

        Only the hashes above the changed leaves are computed, unless the depth grows or so many
        leaves change that nearly every hash does.

        Raises:
            ValueError: the new indexes leave a gap.
        """
        new_indexes = sorted(index for index in hash_by_index if index >= self._leaf_count)
        leaf_count = self._leaf_count + len(new_indexes)
        if new_indexes != list(range(self._leaf_count, leaf_count)):
            raise ValueError(
                f"new leaves must have the indexes {self._leaf_count} to {leaf_count - 1}"
            )
        is_mostly_changed = _REBUILD_FROM_ONE_IN * len(hash_by_index) > leaf_count
        if leaf_count > 1 << self._depth or is_mostly_changed:
            first = HASH_BYTES << self._depth
            leaves = self._hashes[first : first + HASH_BYTES * self._leaf_count]
            leaves.extend(bytes(HASH_BYTES * len(new_indexes)))
            for index, leaf_hash in hash_by_index.items():
                leaves[HASH_BYTES * index : HASH_BYTES * (index + 1)] = leaf_hash
            self._build_tree(leaves, leaf_count)
            return
        self._leaf_count = leaf_count
        width = 1 << self._depth
        for index, leaf_hash in hash_by_index.items():
            offset = HASH_BYTES * (width + index)
            self._hashes[offset : offset + HASH_BYTES] = leaf_hash
        parents = {(width + index) >> 1 for index in hash_by_index}
        while parents and 0 not in parents:
            self._hash_children(parents)
            parents = {parent >> 1 for parent in parents}

    def build_proof(self, index: int) -> list[bytes]:
        """Return the hashes beside the path from the leaf at an index to the root.

        Raises:
            IndexError: there is no leaf at this index.
        """
        node = self._find_leaf_node(index)
        proof = []
        while node > 1:
            proof.append(self._get_hash(node ^ 1))
            node >>= 1
        return proof

    def _build_tree(self, leaves: bytes | bytearray, leaf_count: int) -> None:
        self._leaf_count = leaf_count
        self._depth = (max(1, leaf_count) - 1).bit_length()
        width = 1 << self._depth
        self._hashes = bytearray(_PAIR_BYTES * width)
        self._hashes[HASH_BYTES * width : HASH_BYTES * width + len(leaves)] = leaves
        keccak, empty = self._keccak, _EMPTY
        level = [
            bytes(leaves[first : first + HASH_BYTES])
            for first in range(0, HASH_BYTES * leaf_count, HASH_BYTES)
        ]
        while width > 1:
            width >>= 1
            if len(level) % 2:
                level.append(empty)
            # Lists of hashes are twice as fast as slices of the block of memory.
            level = [
                keccak(left + right if left <= right else right + left)
                for left, right in zip(level[::2], level[1::2], strict=True)
            ]
            empty = keccak(empty + empty)
            self._hashes[HASH_BYTES * width : _PAIR_BYTES * width] = b"".join(level) + empty * (
                width - len(level)
            )

    def _hash_children(self, nodes: Iterable[int]) -> None:
        hashes, keccak = self._hashes, self._keccak
        for node in nodes:
            pair = bytes(hashes[_PAIR_BYTES * node : _PAIR_BYTES * (node + 1)])
            left, right = pair[:HASH_BYTES], pair[HASH_BYTES:]
            hashes[HASH_BYTES * node : HASH_BYTES * (node + 1)] = keccak(
                pair if left <= right else right + left
            )

    def _find_leaf_node(self, index: int) -> int:
        if not 0 <= index < self._leaf_count:
            raise IndexError(f"there is no leaf at index {index}")
        return (1 << self._depth) + index

    def _get_hash(self, node: int) -> bytes:
        return bytes(self._hashes[HASH_BYTES * node : HASH_BYTES * (node + 1)])


def compute_empty_root(depth: int, keccak: Keccak) -> bytes:
    """Return the root of a tree with room for 2^depth leaves that has none."""
    root = _EMPTY
    for _ in range(depth):
        root = keccak(root + root)
    return root


def hash_pair(first: bytes, second: bytes, keccak: Keccak) -> bytes:
    """Return the hash of two hashes in ascending order, OpenZeppelin's commutative hash."""
    return keccak(first + second if first <= second else second + first)


def compute_root(leaf_hash: bytes, proof: Sequence[bytes], keccak: Keccak) -> bytes:
    """Return the root that a proof leads to, as OpenZeppelin's MerkleProof computes it."""
    for sibling in proof:
        leaf_hash = hash_pair(leaf_hash, sibling, keccak)
    return leaf_hash
