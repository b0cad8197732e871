"""QoSProof accepts exactly the proofs of OpenZeppelin's library and of the daemon's tree."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from web3 import Web3
from web3.contract import Contract

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import NodeLeaf, encode_word_leaf, hash_leaf
from oracle.domain.roots.merkle_tree import MerkleTree, compute_root
from tests.contracts.roots.root_rounds import RootRound, Tuple, leaf_tuple, make_leaves
from tests.support.evm.chain import Chain, RevertedError, encode_calldata
from tests.support.examples import examples
from tests.support.round_leaves import get_word

ROUNDS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "roots" / "rounds.json").read_text(encoding="utf-8")
)["rounds"]
ORACLE = "0x" + "0a" * 20
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def probe(fresh_chain: Chain) -> Contract:
    return fresh_chain.deploy("testing/ProofProbe")


@pytest.fixture(scope="module")
def call(probe: Contract) -> Call:
    def read(name: str, *args: Any) -> Any:
        return getattr(probe.functions, name)(*args).call(block_identifier="latest")

    return read


def root_round(count: int, **changes: Any) -> RootRound:
    fields: dict[str, Any] = {
        "chain_id": 31_337,
        "oracle": ORACLE,
        "round": 7,
        "as_of": 100,
    } | changes
    return RootRound(leaves=make_leaves(count), **fields)


def vector_leaf(row: dict[str, str]) -> Tuple:
    node, next_node, pool_hash = (
        bytes.fromhex(row[name][2:]) for name in ("node", "next_node", "pool_hash")
    )
    return node, next_node, int(row["packed"]), pool_hash


def get_error_name(call: Any) -> str:
    with pytest.raises(RevertedError) as caught:
        call()
    return caught.value.error


@pytest.mark.parametrize("vector", ROUNDS, ids=lambda vector: f"{len(vector['leaves'])}-leaves")
def test_proofs_computed_by_openzeppelin_are_accepted(call: Call, vector: dict[str, Any]) -> None:
    root = bytes.fromhex(vector["root"][2:])
    for row in vector["node_proofs"]:
        leaf = vector_leaf(vector["leaves"][row["seat"]])
        assert call("verifyLeaf", root, leaf, row["proof"])
    for row in vector["word_proofs"]:
        word = int(vector["words"][row["index"]])
        assert call("verifyWord", root, row["index"], word, row["proof"])
        assert not call("verifyWord", root, row["index"], word ^ 1, row["proof"])
        assert not call("verifyWord", root, row["index"] + 1, word, row["proof"])
    chain_id, oracle, *numbers = vector["summary"].values()
    values = [int(number) for number in numbers]
    summary_abi = (int(chain_id), bytes.fromhex(oracle[2:]), *values)
    trees = compute_root(
        bytes.fromhex(vector["nodes_root"][2:]),
        [bytes.fromhex(vector["words_root"][2:])],
        keccak,
    )
    assert call("verifySummary", root, summary_abi, trees)
    call("requireSummary", root, values[0], summary_abi, trees)


@pytest.mark.parametrize("vector", ROUNDS, ids=lambda vector: f"{len(vector['leaves'])}-leaves")
def test_decoded_leaf_fields_equal_encoded_fields(call: Call, vector: dict[str, Any]) -> None:
    for row in vector["leaves"]:
        lane = int(row["lane"])
        assert call("fieldsOf", vector_leaf(row)) == (
            lane,
            lane - 1,
            lane > 1,
            max(lane - 2, 0),
            int(row["flags"]),
            int(row["seat"]),
            int(row["score_count"]),
            int(row["score_sum"]),
            int(row["reliability"]),
            int(row["kickout_due_since"]),
            int(row["last_scored_at"]),
        )


def test_contract_hashes_equal_those_of_the_daemon(call: Call) -> None:
    made = root_round(20)
    assert call("hashLeaf", made.leaf(3)) == hash_leaf(made.leaves[3].encode(), keccak)
    assert call("hashSummary", made.summary_abi) == hash_leaf(made.summary.encode(), keccak)
    word = get_word(made.tree, 1)
    assert call("hashWord", 1, word) == hash_leaf(encode_word_leaf(1, word), keccak)


@given(count=st.integers(1, 70), data=st.data())
@examples(40)
def test_leaf_proof_is_valid_only_for_its_leaf(
    call: Call, count: int, data: st.DataObject
) -> None:
    made = root_round(count)
    seat = data.draw(st.integers(0, count - 1))
    other = data.draw(st.integers(0, count - 1))
    assert call("verifyLeaf", made.root, made.leaf(seat), made.proof(seat))
    assert call("verifyLeaf", made.root, made.leaf(other), made.proof(seat)) == (other == seat)


def test_inner_node_is_not_accepted_as_leaf(call: Call) -> None:
    made = root_round(16)
    proof = made.proof(0)
    # The two hashes below an inner node, used as a leaf of 128 bytes that is hashed twice.
    left, right = sorted((hash_leaf(made.leaves[0].encode(), keccak), proof[0]))
    fake = (left[12:], right[12:], int.from_bytes(left), right)
    for shorter in (proof[1:], proof[-1:], []):
        assert not call("verifyLeaf", made.root, fake, shorter)
        assert not call(
            "verifyWord", made.root, int.from_bytes(left), int.from_bytes(right), shorter
        )


def test_root_and_summary_are_not_accepted_as_leaf(call: Call) -> None:
    made = root_round(16)
    assert not call("verifyLeaf", made.root, made.leaf(0), [])
    summary = made.summary
    as_leaf = (bytes(20), bytes.fromhex(ORACLE[2:]), summary.round, summary.as_of.to_bytes(32))
    assert not call("verifyLeaf", made.root, as_leaf, [made.trees])


def test_word_and_node_leaves_are_not_interchangeable(call: Call) -> None:
    made = root_round(16)
    word_proof = made.words_proof(0, 1)
    word = get_word(made.tree, 0)
    assert call("verifyWord", made.root, 0, word, word_proof)
    # Index and word in the last two values of a leaf, and the word in the third one.
    for values in ((0, word.to_bytes(32)), (word, bytes(32))):
        assert not call("verifyLeaf", made.root, (bytes(20), bytes(20), *values), word_proof)
    _, _, fields, pool_hash = made.leaf(0)
    assert not call("verifyWord", made.root, fields, int.from_bytes(pool_hash), made.proof(0))


def test_empty_seat_has_no_valid_proof(call: Call) -> None:
    made = root_round(17)  # 15 of the 32 places are empty
    hashes = [hash_leaf(leaf.encode(), keccak) for leaf in made.leaves]
    padded = MerkleTree(b"".join(hashes) + bytes(32 * 15), keccak)
    assert padded.root == made.nodes_root
    nothing = (bytes(20), bytes(20), 0, bytes(32))
    for place in range(17, 32):
        proof = [*padded.build_proof(place), *made.proof(0)[-2:]]
        assert not call("verifyLeaf", made.root, nothing, proof)


def test_malformed_proof_is_rejected(call: Call) -> None:
    made = root_round(16)
    leaf, proof = made.proven(5)
    assert call("verifyLeaf", made.root, leaf, proof)
    flipped = bytes([proof[0][0] ^ 1]) + proof[0][1:]
    wrong = [
        proof[:-1],
        proof[1:],
        [*proof, bytes(32)],
        [bytes(32), *proof],
        proof[::-1],
        [proof[1], proof[0], *proof[2:]],
        [flipped, *proof[1:]],
        [*proof, proof[-1]],
        [],
    ]
    assert not any(call("verifyLeaf", made.root, leaf, other) for other in wrong)


@pytest.mark.parametrize("bit", [0, 15, 16, 24, 55, 56, 72, 104, 168, 208, 247, 248, 255])
def test_leaf_with_flipped_bit_is_rejected(call: Call, bit: int) -> None:
    made = root_round(16)
    (node, next_node, fields, pool_hash), proof = made.proven(5)
    assert not call(
        "verifyLeaf", made.root, (node, next_node, fields ^ 1 << bit, pool_hash), proof
    )
    assert not call("verifyLeaf", made.root, (next_node, node, fields, pool_hash), proof)
    assert not call("verifyLeaf", made.root, (node, next_node, fields, bytes(32)), proof)


def test_address_with_dirty_high_bits_reverts(chain: Chain, probe: Contract) -> None:
    made = root_round(16)
    clean = bytes.fromhex(
        encode_calldata(probe.functions.requireLeaf(made.root, *made.proven(5)))[2:]
    )
    chain.transact(to=probe.address, data="0x" + clean.hex())
    for place in (4 + 32, 4 + 64):  # node and nextNode, the 12 bytes before each
        dirty = clean[:place] + b"\xff" + clean[place + 1 :]
        assert get_error_name(
            lambda dirty=dirty: chain.transact(to=probe.address, data="0x" + dirty.hex())
        ).startswith("unnamed")


def test_proof_error_contains_node_and_round(chain: Chain, probe: Contract) -> None:
    made = root_round(4)
    leaf, proof = made.proven(1)

    def send(name: str, *args: Any) -> Any:
        return chain.send(getattr(probe.functions, name)(*args))

    assert get_error_name(lambda: send("requireLeaf", made.root, leaf, proof[:-1])) == "NotProven"
    assert (
        get_error_name(
            lambda: send(
                "requireAbsence", made.root, Web3.to_checksum_address(leaf[0]), leaf, proof
            )
        )
        == "AbsenceNotProven"
    )
    assert (
        get_error_name(lambda: send("requireSummary", made.root, 8, made.summary_abi, made.trees))
        == "SummaryNotProven"
    )
    chain_id, oracle, round_, as_of, count, *rest = made.summary_abi
    more = (chain_id, oracle, round_, as_of, count + 1, *rest)
    assert (
        get_error_name(lambda: send("requireSummary", made.root, 7, more, made.trees))
        == "SummaryNotProven"
    )


@pytest.mark.parametrize("changes", [{"round": 8}, {"chain_id": 1}, {"oracle": "0x" + "0b" * 20}])
def test_leaf_of_another_round_chain_or_oracle_is_rejected(
    call: Call, changes: dict[str, Any]
) -> None:
    made = root_round(8)
    other = root_round(8, **changes)
    assert made.trees == other.trees
    assert made.root != other.root
    assert not call("verifyLeaf", other.root, *made.proven(0))


@pytest.mark.parametrize("count", [1, 2, 20])
def test_absence_of_every_address_without_a_leaf_is_provable(call: Call, count: int) -> None:
    made = root_round(count)
    ascending = sorted(leaf.node for leaf in made.leaves)
    neighbours = [int(ascending[0], 16) - 1, int(ascending[-1], 16) + 1, 0, 2**160 - 1]
    hashed = [int.from_bytes(keccak(bytes([number]))[-20:]) for number in range(8)]
    for number in neighbours + hashed:
        address = Address(f"0x{number:040x}")
        assert call(
            "verifyAbsence", made.root, Web3.to_checksum_address(address), *made.absence(address)
        )


def test_absence_of_a_node_with_a_leaf_is_not_provable(call: Call) -> None:
    made = root_round(20)
    for leaf in made.leaves:
        for seat in range(0, 20, 3):
            assert not call(
                "verifyAbsence", made.root, Web3.to_checksum_address(leaf.node), *made.proven(seat)
            )


def test_absence_proof_requires_a_leaf_of_the_root(call: Call) -> None:
    made = root_round(20)
    stranger = Address("0x" + "88" * 20)
    (node, _, fields, pool_hash), proof = made.absence(stranger)
    wider = (node, b"\xff" * 20, fields, pool_hash)
    assert not call("verifyAbsence", made.root, Web3.to_checksum_address(stranger), wider, proof)


@given(numbers=st.tuples(*[st.integers(0, 2**160 - 1)] * 3))
@examples(60)
def test_leaf_proves_absence_of_exactly_the_addresses_in_its_gap(
    call: Call, numbers: tuple[int, int, int]
) -> None:
    node, next_node, who = numbers
    first = make_leaves(1)[0]
    leaf = leaf_tuple(
        NodeLeaf(
            **{
                field: getattr(first, field)
                for field in first.__dataclass_fields__
                if field not in {"node", "next_node"}
            },
            node=Address(f"0x{node:040x}"),
            next_node=Address(f"0x{next_node:040x}"),
        )
    )
    # A tree of one leaf, whose root is the leaf's hash.
    root = call("hashLeaf", leaf)
    size = (next_node - node) % 2**160 or 2**160
    in_gap = 0 < (who - node) % 2**160 < size
    assert (
        call("verifyAbsence", root, Web3.to_checksum_address(Address(f"0x{who:040x}")), leaf, [])
        == in_gap
    )
