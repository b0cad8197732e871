"""Logs in narrow rows equal the original logs."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import MAX_LOG_INDEX, Log, LogTable, get_block_hashes

hashes = st.binary(min_size=32, max_size=32).map(lambda value: Hash("0x" + value.hex()))
ADDRESSES = [Address("0x" + byte * 20) for byte in ("11", "22", "33")]
TOPICS = ["0x" + byte * 32 for byte in ("44", "55")]
places = st.tuples(st.integers(0, 4), st.integers(0, 3) | st.just(MAX_LOG_INDEX))


@st.composite
def histories(draw: st.DrawFn) -> list[Log]:
    """Draw logs of a few blocks, in order, of few contracts and events."""
    blocks = [(draw(hashes), draw(st.integers(0, 2**40))) for _ in range(5)]
    return [
        Log(
            number,
            blocks[number][0],
            blocks[number][1],
            draw(st.integers(0, 99)),
            draw(hashes),
            index,
            draw(st.sampled_from(ADDRESSES)),
            tuple(draw(st.lists(st.sampled_from(TOPICS) | hashes, max_size=4))),
            "0x" + draw(st.binary(max_size=70)).hex(),
        )
        for number, index in sorted(draw(st.sets(places, max_size=12)))
    ]


@given(histories())
def test_log_table_equals_source_logs(logs: list[Log]):
    table = LogTable.from_logs(logs)
    assert table == logs
    assert len(table) == len(logs)
    assert LogTable.from_logs(table) is table
    assert get_block_hashes(table) == get_block_hashes(logs)


@given(histories(), st.integers(0, 12))
def test_concatenated_log_tables_equal_all_logs(logs: list[Log], cut: int):
    joined = LogTable.concatenate([logs[:cut], logs[cut:]])
    assert joined == logs
    assert joined.blocks == LogTable.from_logs(logs).blocks


@given(histories())
def test_sources_are_stored_once_in_order_of_appearance(logs: list[Log]):
    (part,) = LogTable.from_logs(logs).parts
    sources = [(log.address, log.topics[0] if log.topics else "") for log in logs]
    assert part.sources == list(dict.fromkeys(sources))


LOG = Log(7, Hash("0x" + "11" * 32), 5, 0, Hash("0x" + "22" * 32), 0, ADDRESSES[0], (), "0x")
OF_ANOTHER_BLOCK = replace(LOG, index=1, block_hash=Hash("0x" + "33" * 32))


def test_log_index_above_maximum_is_rejected():
    with pytest.raises(ValueError, match=f"expected 0 to {MAX_LOG_INDEX}"):
        LogTable.from_logs([replace(LOG, index=MAX_LOG_INDEX + 1)])


def test_logs_of_two_blocks_at_same_height_are_rejected():
    with pytest.raises(ValueError, match="two different blocks with the same number"):
        LogTable.from_logs([LOG, OF_ANOTHER_BLOCK])


def test_concatenated_tables_with_conflicting_blocks_are_rejected():
    with pytest.raises(ValueError, match="two different blocks with the same number"):
        _ = LogTable.concatenate([[LOG], [OF_ANOTHER_BLOCK]]).blocks
