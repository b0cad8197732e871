"""The native code sums the hashes of rows like the Python code, or rejects the rows."""

from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.chain.log_filter import validate_logs
from oracle.domain.logs import LogTable
from oracle.domain.native import Native
from oracle.store.raw import raw_checksums
from oracle.store.raw.raw_checksums import sum_log_hashes
from tests.support.examples import examples
from tests.support.native.responses import BLOCKS, FILTER, make_random_log_response


@examples(100)
@given(st.integers(0, 2**32).map(Random), st.integers(1, 30))
def test_native_checksums_of_rows_match_python(native: Native, chance: Random, span_blocks: int):
    logs = validate_logs(make_random_log_response(chance), BLOCKS, FILTER)
    middle = chance.randrange(len(logs) + 1)
    table = LogTable.concatenate([logs[:middle], logs[middle:]])
    checksums = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(raw_checksums, "SPAN_BLOCKS", span_blocks)
        for code in (native, None):
            patched.setattr(raw_checksums, "native", code)
            checksums.append(sum_log_hashes(table))
    assert checksums[0] == checksums[1]


def test_native_row_hash_matches_library_for_every_size(native: Native):
    for size in range(300):
        data = bytes(place % 251 for place in range(size))
        ((span, rows, total),) = native.sum_row_hashes(
            [(77 << 24, 1, 0, b"", bytearray(b"t"), data)], {77: b"b"}, [b"s"], 10
        ) or [(0, 0, b"")]
        expected = sha256(b"%d,1,1,bst" % (77 << 24) + data).digest()
        assert (span, rows, total) == (7, 1, expected)


ROW = (77 << 24, 1, 0, b"", b"", b"")


@pytest.mark.parametrize(
    "row",
    [
        (78 << 24, *ROW[1:]),
        (-1, *ROW[1:]),
        (2**64, *ROW[1:]),
        (True, *ROW[1:]),
        (*ROW[:2], 1, *ROW[3:]),
        (*ROW[:5], "0x"),
        ROW[:5],
        list(ROW),
    ],
)
def test_native_code_leaves_unusual_rows_to_python(native: Native, row: Any):
    assert native.sum_row_hashes([ROW], {77: b""}, [b""], 10) is not None
    assert native.sum_row_hashes([ROW, row], {77: b""}, [b""], 10) is None
