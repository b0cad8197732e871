"""The blob of a round: what is signed under one hash, and read back strictly."""

import pytest
from hypothesis import given, strategies as st

from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.oracle_events import IndexReuse, Registrations
from oracle.domain.reports.round_data import (
    decode_round,
    encode_records,
    encode_round,
    extract_records,
    split_registrations,
)
from tests.support.rounds import address
from tests.support.vectors import Vector, vectors_of

nodes = st.integers(0, 2**160 - 1).map(address)
registrations = st.builds(
    Registrations,
    st.lists(st.builds(IndexReuse, nodes, nodes), max_size=3).map(tuple),
    st.lists(nodes, max_size=4).map(tuple),
)
words = st.dictionaries(st.integers(0, 2**24 - 1), st.integers(0, 2**256 - 1), max_size=4).map(
    lambda found: tuple(sorted(found.items()))
)


@given(registrations, words)
def test_round_data_round_trips(new, indexed_words):
    assert decode_round(encode_round(new, encode_records(indexed_words))) == (new, indexed_words)


@given(st.binary(max_size=200))
def test_decodable_bytes_reencode_identically(blob):
    try:
        new, indexed_words = decode_round(blob)
    except ValueError:
        return
    assert encode_round(new, encode_records(indexed_words)) == blob


@given(registrations, words)
def test_truncated_round_data_is_rejected(new, indexed_words):
    blob = encode_round(new, encode_records(indexed_words))
    for missing in {1, len(blob) - len(extract_records(blob)), len(blob)}:
        cut_off = blob[: len(blob) - missing]
        if missing and len(cut_off) % 35 != len(blob) % 35:
            with pytest.raises(ValueError, match=r"few|records"):
                decode_round(cut_off)


@pytest.mark.parametrize("blob", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\1\0\0" + bytes(39)])
def test_round_data_shorter_than_its_counts_require_is_rejected(blob):
    with pytest.raises(ValueError, match="too few"):
        split_registrations(blob)


def test_reuse_of_unassigned_index_is_rejected():
    index_reuse = Registrations((IndexReuse(address(1), address(2)),))

    with pytest.raises(ValueError, match="cannot take"):
        index_reuse.compute_assigned_indexes({}, 3)


def test_second_index_for_same_node_is_rejected():
    for new in (
        Registrations((), (address(1), address(1))),
        Registrations((IndexReuse(address(1), address(2)),), (address(1),)),
        Registrations((), (address(2),)),
    ):
        with pytest.raises(ValueError, match="already"):
            new.compute_assigned_indexes({address(2): 0}, 1)


def test_node_that_gave_up_its_index_gets_another_in_the_same_round():
    new = Registrations((IndexReuse(address(1), address(2)),), (address(2),))

    assert new.compute_assigned_indexes({address(2): 0}, 1) == {0: address(1), 1: address(2)}


@vectors_of("data", file="rounds")
def test_round_data_matches_vector(vector: Vector):
    new = Registrations(
        tuple(IndexReuse(*map(address_of, pair)) for pair in vector["reused"]),
        tuple(map(address_of, vector["appended"])),
    )
    blob = encode_round(
        new, encode_records([(index, int(value, 16)) for index, value in vector["words"]])
    )

    assert "0x" + blob.hex() == vector["blob"]
    assert "0x" + keccak(blob).hex() == vector["data_hash"]


def address_of(text: str):
    return address(int(text, 16))
