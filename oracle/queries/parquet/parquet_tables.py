"""The tables of an export, column by column (docs/reference/parquet.md#tables).

pyarrow is installed with the extra `parquet`; no module outside of this package imports it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import pyarrow as pa

from oracle.domain.events.event_fields import ColumnType
from oracle.domain.events.event_names import FIELD_KINDS


class ExportTable(StrEnum):
    """The tables of an export; each value is the name of a folder and of its table."""

    EVENTS = "events"
    SCORES = "scores"
    RELIABILITY_CHANGES = "reliability_changes"
    NODES = "nodes"
    ROUNDS = "rounds"
    KICKOUTS = "kickouts"


_WHOLE, _TEXT, _FLAG = pa.int64(), pa.string(), pa.bool_()
_TEXTS = pa.list_(pa.string())
# Amounts reach 2^256: decimal digits, as in JSON lines.
_WEI = pa.string()


def _schema(*columns: tuple[str, pa.DataType], null: str = "") -> pa.Schema:
    """Return a schema in which only the columns named in `nullable_names` may be null."""
    may = set(null.split())
    return pa.schema([pa.field(name, kind, nullable=name in may) for name, kind in columns])


_PLACE = (("block", _WHOLE), ("tx", _WHOLE), ("log", _WHOLE), ("sub", _WHOLE))
_AT = (*_PLACE, ("time", _WHOLE))

# GROUP is a reserved word of SQL.
COLUMN_OF: Mapping[str, str] = MappingProxyType({"group": "task_group"})
# The published order of the columns of `events`; columns of later fields come after them.
_PUBLISHED = (
    *("node", "creator", "task", "group", "tasks", "stake", "fee", "gpu_name", "gpu_vram"),
    *("required_gpu", "required_gpu_vram", "min_vram", "model", "models", "version", "timeout"),
    *("size", "kind", "round", "reason", "last_status", "group_size", "frees", "ranked"),
    *("invalid", "derived", "possible", "until"),
)
_TYPE_OF: Mapping[ColumnType, pa.DataType] = {
    ColumnType.WHOLE: _WHOLE,
    ColumnType.FLAG: _FLAG,
    ColumnType.TEXT: _TEXT,
    ColumnType.TEXTS: _TEXTS,
}


def _events_schema() -> pa.Schema:
    names = dict.fromkeys((*_PUBLISHED, *FIELD_KINDS))
    own = [(COLUMN_OF.get(name, name), _TYPE_OF[FIELD_KINDS[name].column]) for name in names]
    null = " ".join(["time_ms", *(name for name, _ in own)])
    return _schema(*_AT, ("time_ms", _WHOLE), ("type", _TEXT), *own, null=null)


_EVENTS = _events_schema()
_SCORES = _schema(
    *(*_AT, ("node", _TEXT), ("seq", _WHOLE), ("task", _TEXT), ("task_group", _TEXT)),
    *(("rank", _WHOLE), ("elapsed", _WHOLE), ("score", _WHOLE), ("rules_sha256", _TEXT)),
    null="rank elapsed rules_sha256",
)
_RELIABILITY_CHANGES = _schema(
    *(*_AT, ("node", _TEXT), ("seq", _WHOLE), ("cause", _TEXT), ("task", _TEXT)),
    *(("h_before", _WHOLE), ("h_after", _WHOLE)),
    null="task",
)
_ROUNDS = _schema(
    *(*_AT, ("round", _WHOLE), ("as_of", _WHOLE), ("as_of_hash", _TEXT)),
    *(("data_hash", _TEXT), ("digest", _TEXT), ("config", _TEXT), ("transmitter", _TEXT)),
    ("data", pa.binary()),
)
_KICKOUTS = _schema(
    *(*_PLACE, ("node", _TEXT), ("due", _FLAG)),
    *((f"since_{name}", kind) for name, kind in _PLACE),
)
_NODES = _schema(
    *(("block", _WHOLE), ("node", _TEXT), ("membership", _TEXT), ("paused", _FLAG)),
    *(("running", _WHOLE), ("stake", _WEI), ("gpu_name", _TEXT), ("gpu_vram", _WHOLE)),
    *(("version", _TEXT), ("models", _TEXTS), ("timeout", _WHOLE)),
    *(("pool", pa.list_(pa.uint8())), ("pool_sum", _WHOLE), ("scored", _WHOLE)),
    *(("h", _WHOLE), ("h_since", _WHOLE), ("excluded", _FLAG), ("kickout_due", _FLAG)),
    null="stake gpu_name gpu_vram version timeout",
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
