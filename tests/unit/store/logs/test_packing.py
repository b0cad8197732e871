"""Data of logs are packed losslessly: Python and the database's view give the same bytes."""

from hypothesis import HealthCheck, example, given, settings, strategies as st

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log, pack_hex, unpack_hex
from oracle.store.database import Store, UnitOfWork
from oracle.store.encoding import encode_hex, split_hashes
from tests.unit.store.samples import address, log, make_hash

_WORD = st.one_of(
    st.binary(max_size=32).map(lambda part: part.rjust(32, b"\0")),
    st.binary(max_size=32).map(lambda part: part.ljust(32, b"\0")),
    st.binary(min_size=32, max_size=32),
)
DATA = st.builds(
    lambda words, rest: b"".join(words) + rest, st.lists(_WORD, max_size=6), st.binary(max_size=31)
)


@given(DATA)
@example(b"")
@example(bytes(32))
@example(bytes(31))
@example(b"\xff" * 32)
@example(b"\0" + b"\xff" * 31)
@example(b"\xff" * 31 + b"\0")
def test_packed_data_round_trips(data: bytes):
    assert unpack_hex(pack_hex(encode_hex(data))) == encode_hex(data)


@given(DATA)
def test_packing_adds_at_most_one_byte_per_word(data: bytes):
    assert len(pack_hex(encode_hex(data))) <= len(data) + (len(data) + 31) // 32


def test_packed_number_has_a_header_and_only_its_significant_bytes():
    assert pack_hex(make_hash(300)) == b"\x22\x01\x2c"
    assert pack_hex("0x" + "00" * 32) == b" "


def test_log_view_has_plain_columns_for_every_log(store: Store):
    logs = [
        log(1, 0, data="0x"),
        log(1, 7, data=make_hash(1) + "00" * 32 + "ff" * 32, topics=(make_hash(9),)),
        log(2, 2**24 - 1, data="0x" + "12" * 3 + "00" * 29 + "34" * 5, topics=()),
        log(3, 1, address=address(77), data="0x" + "00" * 31),
    ]
    with store.transaction() as uow:
        uow.logs.append(logs)
        uow.logs.orphan_above(2)
        assert read_view(uow) == [(stored_log, stored_log.block <= 2) for stored_log in logs]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(data=st.lists(DATA, min_size=1, max_size=20))
def test_view_unpacks_packed_data(store: Store, data: list[bytes]):
    logs = [log(1, place, data=encode_hex(blob)) for place, blob in enumerate(data)]
    with store.transaction() as uow:
        # Rows of longer examples remain after these.
        uow.logs.replace(logs)
        assert read_view(uow)[: len(logs)] == [(stored_log, True) for stored_log in logs]


def read_view(uow: UnitOfWork) -> list[tuple[Log, bool]]:
    """Return the data and the canonical flag of the view."""
    names = "block, block_hash, time, tx_index, tx_hash, log_index, address, topics, data"
    query = f"SELECT {names}, canonical FROM log ORDER BY block, log_index"  # noqa: S608
    rows = uow.logs._connection.exec_driver_sql(query)
    return [
        (
            Log(
                row.block,
                Hash(encode_hex(row.block_hash)),
                row.time,
                row.tx_index,
                Hash(encode_hex(row.tx_hash)),
                row.log_index,
                Address(encode_hex(row.address)),
                split_hashes(row.topics),
                encode_hex(row.data),
            ),
            bool(row.canonical),
        )
        for row in rows
    ]
