"""The tables of an export, column by column (docs/reference/parquet.md#tables).

pyarrow is installed with the extra `parquet`, so no module outside of this package imports it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import pyarrow as pa

from oracle.domain.events.event_fields import ColumnType
from oracle.domain.events.network_events import FIELD_KINDS


class ExportTable(StrEnum):
    """The tables of an export; each value names both the table and its folder."""

    EVENTS = "events"
    SCORES = "scores"
    RELIABILITY_CHANGES = "reliability_changes"
    NODES = "nodes"
    ROUNDS = "rounds"
    KICKOUTS = "kickouts"


_INTEGER = pa.int64()
_TEXT = pa.string()
_BOOLEAN = pa.bool_()
_TEXTS = pa.list_(pa.string())
# Amounts may have up to 256 bits. They are therefore decimal texts, as in JSON lines.
_WEI = pa.string()


def _build_schema(*columns: tuple[str, pa.DataType], nullable_names: str = "") -> pa.Schema:
    """Build a schema in which only the columns in `nullable_names` may be null."""
    nullable = set(nullable_names.split())
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in columns])


_POSITION_COLUMNS = (("block", _INTEGER), ("tx", _INTEGER), ("log", _INTEGER), ("sub", _INTEGER))
_TIMED_COLUMNS = (*_POSITION_COLUMNS, ("time", _INTEGER))

# Columns whose name differs from that of their field, because GROUP is a reserved word in SQL.
COLUMN_BY_FIELD: Mapping[str, str] = MappingProxyType({"group": "task_group"})
# Columns of `events` in their published order. The columns of newer fields come after them.
_PUBLISHED_FIELDS = (
    *("node", "creator", "task", "group", "tasks", "stake", "fee", "gpu_name", "gpu_vram"),
    *("required_gpu", "required_gpu_vram", "min_vram", "model", "models", "version", "timeout"),
    *("size", "kind", "round", "reason", "last_status", "group_size", "frees", "ranked"),
    *("invalid", "derived", "possible", "until"),
)
_ARROW_TYPE_BY_COLUMN_TYPE: Mapping[ColumnType, pa.DataType] = {
    ColumnType.WHOLE: _INTEGER,
    ColumnType.FLAG: _BOOLEAN,
    ColumnType.TEXT: _TEXT,
    ColumnType.TEXTS: _TEXTS,
}


def _build_events_schema() -> pa.Schema:
    names = dict.fromkeys((*_PUBLISHED_FIELDS, *FIELD_KINDS))
    field_columns = [
        (COLUMN_BY_FIELD.get(name, name), _ARROW_TYPE_BY_COLUMN_TYPE[FIELD_KINDS[name].column])
        for name in names
    ]
    nullable_names_text = " ".join(["time_ms", *(name for name, _ in field_columns)])
    return _build_schema(
        *_TIMED_COLUMNS,
        ("time_ms", _INTEGER),
        ("type", _TEXT),
        *field_columns,
        nullable_names=nullable_names_text,
    )


_EVENTS = _build_events_schema()
_SCORES = _build_schema(
    *(*_TIMED_COLUMNS, ("node", _TEXT), ("seq", _INTEGER), ("task", _TEXT), ("task_group", _TEXT)),
    *(("rank", _INTEGER), ("elapsed", _INTEGER), ("score", _INTEGER), ("rules_sha256", _TEXT)),
    nullable_names="rank elapsed rules_sha256",
)
_RELIABILITY_CHANGES = _build_schema(
    *(*_TIMED_COLUMNS, ("node", _TEXT), ("seq", _INTEGER), ("cause", _TEXT), ("task", _TEXT)),
    *(("h_before", _INTEGER), ("h_after", _INTEGER)),
    nullable_names="task",
)
_ROUNDS = _build_schema(
    *(*_TIMED_COLUMNS, ("round", _INTEGER), ("as_of", _INTEGER), ("as_of_hash", _TEXT)),
    *(("root", _TEXT), ("config", _TEXT), ("signer_bitmap", _TEXT)),
)
_KICKOUTS = _build_schema(
    *(*_POSITION_COLUMNS, ("node", _TEXT), ("due", _BOOLEAN)),
    *((f"since_{name}", kind) for name, kind in _POSITION_COLUMNS),
)
_NODES = _build_schema(
    *(("block", _INTEGER), ("node", _TEXT), ("membership", _TEXT), ("paused", _BOOLEAN)),
    *(("running", _INTEGER), ("stake", _WEI), ("gpu_name", _TEXT), ("gpu_vram", _INTEGER)),
    *(("version", _TEXT), ("models", _TEXTS), ("timeout", _INTEGER)),
    *(("pool", pa.list_(pa.uint8())), ("pool_sum", _INTEGER), ("scored", _INTEGER)),
    *(("h", _INTEGER), ("h_since", _INTEGER), ("excluded", _BOOLEAN), ("kickout_due", _BOOLEAN)),
    nullable_names="stake gpu_name gpu_vram version timeout",
)

SCHEMAS: Mapping[ExportTable, pa.Schema] = MappingProxyType(
    {
        ExportTable.EVENTS: _EVENTS,
        ExportTable.SCORES: _SCORES,
        ExportTable.RELIABILITY_CHANGES: _RELIABILITY_CHANGES,
        ExportTable.NODES: _NODES,
        ExportTable.ROUNDS: _ROUNDS,
        ExportTable.KICKOUTS: _KICKOUTS,
    }
)
