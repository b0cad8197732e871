"""The block range of a log request: small until the density of logs is known, then larger."""

from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRange
from oracle.rpc.endpoints.learned_limits import (
    INITIAL_BLOCKS,
    MAX_BLOCKS,
    TARGET_LOGS,
    RangeSizer,
)
from oracle.rpc.rpc_errors import ErrorKind, RpcError

HISTORY = BlockRange(0, 10**7)
QUICK, LATE = 0.1, 9.0


def sizes(sizer: RangeSizer, answers: int, *, logs_a_block: float = 0.0) -> list[int]:
    """Return the consecutive ranges, each of which is answered quickly."""
    range_sizes = []
    for _ in range(answers):
        part = sizer.limit_range(HISTORY, max_blocks=MAX_BLOCKS)
        range_sizes.append(len(part))
        sizer.record_response(part, round(logs_a_block * len(part)), QUICK)
    return range_sizes


def test_block_range_doubles_first_and_then_grows_by_10_percent():
    assert sizes(RangeSizer(), 6) == [100, 200, 400, 800, 880, 968]


def test_block_range_shrinks_to_the_target_number_of_logs():
    cut = sizes(RangeSizer(), 20, logs_a_block=24)
    assert cut[0] == INITIAL_BLOCKS
    assert max(cut) * 24 <= TARGET_LOGS


def test_rejected_block_range_is_halved_and_grows_slowly():
    sizer = RangeSizer()
    part = sizer.limit_range(HISTORY, max_blocks=MAX_BLOCKS)
    assert sizer.shrink_after_error(part, RpcError("a", ErrorKind.TOO_LARGE, "too much")) == 50
    assert sizes(sizer, 3) == [50, 100, 150]


def test_slow_response_shrinks_the_range_and_stops_doubling():
    sizer = RangeSizer()
    sizer.record_response(sizer.limit_range(HISTORY, max_blocks=MAX_BLOCKS), 0, LATE)
    assert sizes(sizer, 3) == [80, 130, 180]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["quick", "late", "refused"]), st.integers(0, 50), st.integers(1, 2000)
        )
    )
)
def test_block_range_respects_the_reported_limit_and_is_never_empty(answers):
    sizer = RangeSizer()
    stated = MAX_BLOCKS
    for what, density, limit in answers:
        part = sizer.limit_range(HISTORY, max_blocks=MAX_BLOCKS)
        assert 1 <= len(part) <= stated
        if what == "refused":
            error = RpcError("a", ErrorKind.TOO_LARGE, "too many blocks", max_blocks=limit)
            assert 1 <= sizer.shrink_after_error(part, error) <= max(1, len(part) - 1)
            if limit < len(part):
                stated = min(stated, limit)
        else:
            sizer.record_response(part, density * len(part), LATE if what == "late" else QUICK)
