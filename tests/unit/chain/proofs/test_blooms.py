"""Blooms are computed and queried as in the Yellow Paper."""

from hypothesis import given, strategies as st
from web3 import Web3

from devnet.fakechain.block_json import FakeLog
from oracle.chain.proofs.keccak import hash_with_pycryptodome, keccak
from oracle.chain.proofs.receipts import (
    compute_bloom,
    compute_bloom_mask,
    format_bloom,
    has_all_bits,
    may_contain_log,
)
from tests.support.examples import examples

TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
SPEAKER = "0x5fbdb2315678afecb367f032d93f642f64180aa3"
addresses = st.binary(min_size=20, max_size=20).map(lambda case: "0x" + case.hex())
topics = st.binary(min_size=32, max_size=32).map(lambda case: "0x" + case.hex())
logs = st.lists(st.builds(FakeLog, addresses, st.lists(topics, max_size=4).map(tuple)), max_size=8)


def bits_by_the_paper(content: bytes) -> set[int]:
    """Return the set bits by byte index: byte 255 - bit

    8, value 1 << bit % 8 (Yellow Paper, 4.3.1).
    """
    hashed = Web3.keccak(content)
    return {int.from_bytes(hashed[place : place + 2], "big") % 2048 for place in (0, 2, 4)}


@examples(15)
@given(logs)
def test_bloom_sets_three_bits_per_address_and_topic(emitted_logs):
    filled = bytearray(256)
    for log in emitted_logs:
        for entry in (log.address, *log.topics):
            for bit in bits_by_the_paper(bytes.fromhex(entry[2:])):
                filled[255 - bit // 8] |= 1 << bit % 8
    assert format_bloom(compute_bloom(emitted_logs)) == "0x" + filled.hex()


@examples(15)
@given(logs)
def test_bloom_contains_every_logged_address(emitted_logs):
    bits = compute_bloom(emitted_logs)
    assert all(has_all_bits(bits, compute_bloom_mask(log.address)) for log in emitted_logs)


def test_bloom_without_a_required_bit_excludes_the_log():
    full_bloom = compute_bloom_mask(SPEAKER) | compute_bloom_mask(TRANSFER)
    lowest = compute_bloom_mask(TRANSFER) & -compute_bloom_mask(TRANSFER)
    assert may_contain_log(
        full_bloom, [compute_bloom_mask(SPEAKER)], [compute_bloom_mask(TRANSFER)]
    )
    assert not may_contain_log(
        full_bloom & ~lowest, [compute_bloom_mask(SPEAKER)], [compute_bloom_mask(TRANSFER)]
    )


def test_bloom_that_contains_only_the_address_excludes_the_log():
    assert not may_contain_log(
        compute_bloom_mask(SPEAKER), [compute_bloom_mask(SPEAKER)], [compute_bloom_mask(TRANSFER)]
    )


@examples(15)
@given(st.binary(max_size=400))
def test_keccak_implementations_agree(content):
    assert keccak(content) == hash_with_pycryptodome(content) == bytes(Web3.keccak(content))
