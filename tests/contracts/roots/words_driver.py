"""Drives a QoSWords, the hot set, on an oracle of roots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from web3.contract import Contract

from oracle.chain.proofs.keccak import keccak
from oracle.domain.roots.leaves import encode_word_leaf, hash_leaf
from oracle.domain.roots.merkle_tree import MerkleTree, hash_pair
from tests.contracts.roots.root_rounds import RootRound
from tests.contracts.roots.roots_driver import RootsOracle
from tests.support.evm.chain import Receipt

# A tenth of the lanes may fall per day; a QoS falls if it drops by more than a quarter.
FALL_SHARE, BIG_FALL, MAX_ROUNDS = 1_000, 2_500, 10
DAY = 86_400


@dataclass(frozen=True)
class HotSet:
    roots: RootsOracle
    contract: Contract

    def read(self, name: str, *args: Any) -> Any:
        return getattr(self.contract.functions, name)(*args).call(block_identifier="latest")

    def send(self, name: str, *args: Any) -> Receipt:
        return self.roots.chain.send(getattr(self.contract.functions, name)(*args))

    def bring(self, source: RootRound, first: int = 0, count: int = 1) -> Receipt:
        """Send an aligned run of a round's words; positions after the last word are empty."""
        return self.update_words(source, first, source.words(first, count), count)

    def update_words(
        self, source: RootRound, first: int, words: Sequence[int], count: int
    ) -> Receipt:
        proof = source.words_proof(first, count)
        return self.send("bring", source.round, first, list(words), proof)

    def bind(self, source: RootRound, *seats: int) -> Receipt:
        proven = [source.proven(seat) for seat in seats]
        return self.send("bind", [leaf for leaf, _ in proven], [proof for _, proof in proven])

    def weight(self, seat: int) -> int:
        """Return the weight of the node that make_leaves puts on this seat."""
        return int(self.read("weightOf", self.roots.node(seat)))

    def lanes(self, count: int) -> list[int]:
        """Return the lanes of the first seats."""
        words = self.read("wordsAt", 0, -(-count // 16))
        return [words[seat // 16] >> 16 * (seat % 16) & 0xFFFF for seat in range(count)]

    @property
    def falls(self) -> list[int]:
        """Return the number of lanes that fell today, and the limit."""
        return list(self.read("fallsToday"))


def deploy_words(
    roots: RootsOracle,
    fall_share: int = FALL_SHARE,
    big_fall: int = BIG_FALL,
    max_rounds: int = MAX_ROUNDS,
) -> HotSet:
    arguments = (roots.contract.address, fall_share, big_fall, max_rounds)
    return HotSet(roots, roots.chain.deploy("roots/QoSWords", *arguments))


@dataclass(frozen=True)
class ForgedWords(RootRound):
    """A round whose words are not those of its leaves, as a stolen quorum could sign it."""

    forged: Sequence[int] = ()

    @property
    def word_tree(self) -> MerkleTree:
        hashes = [
            hash_leaf(encode_word_leaf(index, word), keccak)
            for index, word in enumerate(self.forged)
        ]
        return MerkleTree(b"".join(hashes), keccak)

    @property
    def root(self) -> bytes:
        summary = hash_leaf(self.summary.encode(), keccak)
        return hash_pair(summary, hash_pair(self.nodes_root, self.word_tree.root, keccak), keccak)

    def words(self, first: int, count: int) -> list[int]:
        return list(self.forged[first : first + count])

    def words_proof(self, first: int, count: int) -> list[bytes]:
        proof = self.word_tree.build_proof(first)[count.bit_length() - 1 :]
        return [*proof, self.nodes_root, hash_leaf(self.summary.encode(), keccak)]
