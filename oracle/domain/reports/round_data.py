"""The `data` of a round: its registrations, and the words of lanes.

The data is one blob under one hash, so that no part of it can be signed separately. See
docs/reference/report-format.md#data.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from oracle.domain.events.oracle_events import IndexReuse, Registrations
from oracle.domain.ids import Address

# One record is the word's number and the word: 3 + 32 bytes
# (docs/reference/report-format.md#records).
RECORD_BYTES = 35
# Two uint16: the number of nodes that reuse an index, and the number of nodes with a new one.
HEADER_BYTES = 4
ADDRESS_BYTES = 20

_INDEX_BYTES, _COUNT_BYTES = 3, 2


class RoundData(NamedTuple):
    """The decoded content of a blob; `words` are pairs (word number, word), ascending."""

    registrations: Registrations
    words: tuple[tuple[int, int], ...]


def encode_round(registrations: Registrations, records: bytes) -> bytes:
    """Return registrations and records as the blob that is pushed and hashed."""
    reused, appended = registrations
    counts = b"".join(len(group).to_bytes(_COUNT_BYTES) for group in (reused, appended))
    nodes = [*(node for pair in reused for node in pair), *appended]
    return b"".join([counts, *(bytes.fromhex(node[2:]) for node in nodes), records])


def decode_round(blob: bytes) -> RoundData:
    """Decode a blob strictly: encoding the result gives the same bytes.

    Raises:
        ValueError: the blob is too short for its counts, its records are incomplete, or its words
            do not ascend.
    """
    registrations, records = split_registrations(blob)
    return RoundData(registrations, tuple(decode_records(records)))


def split_registrations(blob: bytes) -> tuple[Registrations, bytes]:
    """Return the registrations and the records of a blob. Raises ValueError if it is too short."""
    records = extract_records(blob)
    reused, _ = _decode_counts(blob)
    nodes = [
        Address("0x" + blob[offset : offset + ADDRESS_BYTES].hex())
        for offset in range(HEADER_BYTES, len(blob) - len(records), ADDRESS_BYTES)
    ]
    pairs = tuple(
        IndexReuse(nodes[2 * pair_index], nodes[2 * pair_index + 1])
        for pair_index in range(reused)
    )
    return Registrations(pairs, tuple(nodes[2 * reused :])), records


def extract_records(blob: bytes) -> bytes:
    """Return the records of a blob. Raises ValueError if the blob is too short for its counts."""
    reused, appended = _decode_counts(blob)
    start = HEADER_BYTES + ADDRESS_BYTES * (2 * reused + appended)
    if len(blob) < start:
        raise ValueError(
            f"{len(blob)} bytes are too few for the addresses of {reused + appended} nodes"
        )
    return blob[start:]


def encode_records(words: Sequence[tuple[int, int]]) -> bytes:
    """Encode words as records of 35 bytes: a 3-byte word number and the word.

    The word numbers must ascend strictly.
    """
    return b"".join(
        index.to_bytes(_INDEX_BYTES, "big") + word.to_bytes(32, "big") for index, word in words
    )


def decode_records(records: bytes) -> list[tuple[int, int]]:
    """Decode records into pairs (word number, word).

    Raises:
        ValueError: the length is not a multiple of 35, or the word numbers do not ascend.
    """
    if len(records) % RECORD_BYTES:
        raise ValueError(
            f"the records have {len(records)} bytes; expected a multiple of {RECORD_BYTES}"
        )
    words = [
        (
            int.from_bytes(records[offset : offset + _INDEX_BYTES]),
            int.from_bytes(records[offset + _INDEX_BYTES : offset + RECORD_BYTES]),
        )
        for offset in range(0, len(records), RECORD_BYTES)
    ]
    if any(record[0] >= next_record[0] for record, next_record in pairwise(words)):
        raise ValueError("the word numbers are not in ascending order")
    return words


def find_word(records: bytes, index: int) -> int | None:
    """Return the word with this number from ascending records, or None if there is none."""
    first, end = 0, len(records) // RECORD_BYTES
    while first < end:
        middle = (first + end) // 2
        offset = middle * RECORD_BYTES
        word_index = int.from_bytes(records[offset : offset + _INDEX_BYTES])
        if word_index == index:
            return int.from_bytes(records[offset + _INDEX_BYTES : offset + RECORD_BYTES])
        first, end = (middle + 1, end) if word_index < index else (first, middle)
    return None


def _decode_counts(blob: bytes) -> tuple[int, int]:
    if len(blob) < HEADER_BYTES:
        raise ValueError(f"{len(blob)} bytes are too few for the node counts")
    reused = int.from_bytes(blob[:_COUNT_BYTES])
    return reused, int.from_bytes(blob[_COUNT_BYTES:HEADER_BYTES])
