"""Events as columns: reading returns the written events, and rejects malformed columns."""

import pytest
from hypothesis import given

from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from tests.support.histories import History
from tests.support.random_histories import any_histories

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from lab.backtest.parquet_events import ParquetEvents  # noqa: E402
from oracle.queries.parquet.event_columns import build_event_batch, decode_event_batch  # noqa: E402
from oracle.queries.parquet.parquet_folder import ExportSource, ParquetFolder  # noqa: E402
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable  # noqa: E402

ANYBODY = ExportSource(1, "0x00", 0, "reference", "00", 0)
EVENTS = History().joins("A", stake=10**18, gpu_name="a\x00\\b").starts("1", "A").events


@given(any_histories())
def test_events_round_trip_through_columns(events):
    if events:
        assert list(decode_event_batch(build_event_batch(events))) == events


# The order of the first published files: readers find columns by index.
PUBLISHED = [
    "block:int64",
    "tx:int64",
    "log:int64",
    "sub:int64",
    "time:int64",
    "time_ms:int64",
    "type:string",
    "node:string",
    "creator:string",
    "task:string",
    "task_group:string",
    "tasks:list",
    "stake:string",
    "fee:string",
    "gpu_name:string",
    "gpu_vram:int64",
    "required_gpu:string",
    "required_gpu_vram:int64",
    "min_vram:int64",
    "model:string",
    "models:list",
    "version:string",
    "timeout:int64",
    "size:int64",
    "kind:string",
    "round:int64",
    "reason:string",
    "last_status:string",
    "group_size:int64",
    "frees:bool",
    "ranked:bool",
    "invalid:list",
    "derived:list",
    "possible:list",
    "until:int64",
]


def test_published_columns_keep_their_order_and_types():
    schema = SCHEMAS[ExportTable.EVENTS]
    columns = [f"{field.name}:{str(field.type).partition('<')[0]}" for field in schema]
    assert columns[: len(PUBLISHED)] == PUBLISHED
    required = [field.name for field in schema if not field.nullable]
    assert required == ["block", "tx", "log", "sub", "time", "type"]


def test_256_bit_amounts_are_exact():
    events = History().joins("A", stake=2**256 - 1).events
    assert list(decode_event_batch(build_event_batch(events))) == events


def with_column(name, values):
    batch = build_event_batch(EVENTS)
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(name), pa.array(values, pa.string()))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("node", ["0x" + "a" * 40, "0x" + "A" * 40], "node must be 0x and 40 hex digits"),
        ("node", ["0x" + "a" * 40, None], "node of task_started is missing"),
        ("type", ["node_joined", "node_left"], "node_left"),
        ("stake", ["much", None], "much"),
    ],
)
def test_invalid_event_row_is_rejected(name, values, message):
    with pytest.raises(InputError, match=message):
        list(decode_event_batch(with_column(name, values)))


def test_unknown_enum_value_is_rejected():
    batch = build_event_batch(History().creates("1").events)
    place = batch.schema.get_field_index("kind")
    unknown_kinds = pa.array(["sculpture"], pa.string())
    with pytest.raises(InputError, match="sculpture"):
        list(
            decode_event_batch(batch.set_column(place, batch.schema.field("kind"), unknown_kinds))
        )


@pytest.mark.parametrize("name", ["block", "log", "time", "type"])
def test_row_without_position_is_rejected(name):
    batch = build_event_batch(EVENTS)
    place = batch.schema.get_field_index(name)
    kind = batch.schema.field(name).with_nullable(True)
    emptied = batch.set_column(place, kind, pa.nulls(len(batch), kind.type))
    with pytest.raises(InputError, match=f"{name} is missing"):
        list(decode_event_batch(emptied))


def test_time_ms_outside_block_second_is_rejected():
    batch = build_event_batch(EVENTS)
    place = batch.schema.get_field_index("time_ms")
    field = batch.schema.field("time_ms")
    late = batch.set_column(place, field, pa.array([None, 1_999_000], field.type))
    with pytest.raises(InputError, match="time_ms: 1999000 is not within the second"):
        list(decode_event_batch(late))


def write_export(path, *batches):
    """Export these rows, one file each, all final."""
    folder = ParquetFolder.open_for_append(path, ANYBODY, 10)
    folder.prepare_export_run()
    for number, batch in enumerate(batches):
        blocks = BlockRange(number * 10, number * 10 + 9)
        folder.write_table(ExportTable.EVENTS, blocks, [batch])
    folder.manifest.next = 10 * len(batches)
    folder.save_manifest()
    return ParquetEvents.open_export(path)


def test_unordered_events_are_rejected(tmp_path):
    twice = write_export(tmp_path / "out", build_event_batch(EVENTS), build_event_batch(EVENTS))
    with pytest.raises(InputError, match="the events are out of order at"):
        list(twice.read_chunks())


def test_file_with_other_columns_is_rejected(tmp_path):
    parquet_events = write_export(tmp_path / "out", build_event_batch(EVENTS))
    (path,) = parquet_events.paths
    pq.write_table(pa.table({"block": [1]}), path)
    with pytest.raises(InputError, match="columns differ from those of the events table"):
        list(parquet_events.read_chunks())


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_damaged_file_is_named_in_the_error(tmp_path, kept):
    parquet_events = write_export(tmp_path / "out", build_event_batch(EVENTS))
    (path,) = parquet_events.paths
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=rf"{path.name}: cannot be read"):
        list(parquet_events.read_chunks())


def test_history_counts_only_events_up_to_max_block(tmp_path):
    history = History().joins("A").after(10).starts("1", "A").after(10).times_out("1")
    parquet_events = write_export(tmp_path / "out", build_event_batch(history.events))
    first, started, ended = (event.at.block for event in history.events[-3:])
    assert first < started < ended
    upto = ParquetEvents(parquet_events.paths, max_block=started)
    counted = upto.open_history(started)
    read = [event for chunk in upto.read_chunks() for event in chunk]
    assert (counted.folded_count, counted.first_block, counted.last_block) == (
        len(read),
        started,
        started,
    )
    assert counted.start_count == 1
    with pytest.raises(InputError, match=f"--from {ended}"):
        upto.open_history(ended)
