"""Tables folded from the raw rows, such as nodes, tasks, groups and scores.

A position that belongs to a row is text, `block:tx:log:sub`; appended rows have their position in
four columns. Integers above 2^63 - 1 that are not amounts are stored as 2^63 - 1.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)

from oracle.store.tables.metadata import PartialIndex, metadata

# Default of new columns in existing rows during a migration. New rows set their own values.
_ZERO = text("0")


def _build_position_columns(*, is_key: bool) -> list[Column[int]]:
    return [
        Column(name, BigInteger, primary_key=is_key, nullable=False, autoincrement=False)
        for name in ("block", "tx", "log", "sub")
    ]


# Folded state of each node. This table is a projection.
node = Table(
    "node",
    metadata,
    Column("address", LargeBinary, primary_key=True),
    # The node's permanent number, from 0. Nodes are numbered in the order in which events first
    # named them.
    Column("seat", BigInteger, nullable=False, index=True),
    Column("membership", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("running", BigInteger, nullable=False),
    Column("stake", LargeBinary),
    Column("gpu_name", Text),
    Column("gpu_vram", BigInteger),
    Column("version", Text),  # major.minor.patch
    Column("models", Text, nullable=False),  # JSON list
    Column("in_use", Text, nullable=False),  # JSON list
    Column("timeout", BigInteger),
    Column("pool", LargeBinary, nullable=False),  # one byte per score, oldest first
    Column("pool_sum", BigInteger, nullable=False),
    Column("scored", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("excluded", Boolean, nullable=False),
    Column("prior", BigInteger),
    Column("restarts", BigInteger, nullable=False),
    Column("kickout_due_since", Text),
    Column("kickout_due_time", BigInteger),
    # Block time of the newest task score. It is NULL if there is no score.
    Column("last_scored_at", BigInteger),
    # True if the node was kicked out while its kickout was due, and has not rejoined. Such a node
    # rejoins with an empty pool and reliability 1.
    Column("starts_anew", Boolean, nullable=False),
    Column("changed_at", BigInteger, nullable=False, index=True),
    # Time at which H will be 1 again. It is NULL if H is 1 already
    # (docs/reference/scoring-rules.md#numbers).
    Column("recovers_until", BigInteger, index=True),
    # These columns are used only by the legacy rules. Under other rules, they are zero.
    Column("window", BigInteger, nullable=False, server_default=_ZERO),
    Column("window_sum", BigInteger, nullable=False, server_default=_ZERO),
    Column("window_count", BigInteger, nullable=False, server_default=_ZERO),
    Column("online_since", BigInteger),
    Column("online_seconds", BigInteger, nullable=False, server_default=_ZERO),
    # Transition that is applied when the node's task ends: 'pause', 'quit', or NULL.
    Column("pending", Text),
    # Time at which the node last started a task. It is NULL if the node has never started one.
    Column("last_start", BigInteger),
    # JSON list of (model, requested_at, until), in seconds. It is NULL if no download was
    # requested.
    Column("downloads", Text),
    sqlite_with_rowid=False,
)

# Folded state of each task. This table is a projection. It has a rowid, because its keys are
# random. A small index of keys stays in memory, but whole rows would not.
task = Table(
    "task",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("created_at", Text),
    Column("creator", LargeBinary),
    Column("fee", LargeBinary),
    Column("min_vram", BigInteger),
    Column("required_gpu", Text),
    Column("required_gpu_vram", BigInteger),
    Column("models", Text, nullable=False),  # JSON list
    Column("version", Text),
    Column("size", BigInteger),
    Column("kind", Text),
    Column("timeout", BigInteger),
    Column("task_group", LargeBinary),
    Column("queued", Boolean, nullable=False),
    Column("node", LargeBinary),
    Column("started_at", Text),
    Column("started_time", BigInteger),
    Column("stopped_at", Text),
    Column("stopped_time", BigInteger),
    Column("error_reported", Boolean, nullable=False),
    Column("revealed_at", Text),
    Column("freed", Boolean, nullable=False),
    Column("group_size", BigInteger),
    Column("validated", Boolean, nullable=False),
    Column("ending", Text),
    Column("ended_at", Text),
    Column("ended_time", BigInteger),
    Column("abort_reason", Text),
    Column("scored_in", LargeBinary),
    Column("runs", Text),  # JSON list; NULL except in commit/disclose networks
    # The node's share of a fee that was paid to the whole group. NULL if the fee was not reported
    # as shared.
    Column("paid", LargeBinary),
    # Blocks of the first and of the newest event that changed the row.
    Column("seen_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
)
_WAITING = "created_at IS NOT NULL AND node IS NULL AND runs IS NULL AND ending IS NULL"
PartialIndex(
    "waiting_task",
    task.c.created_at,
    where=_WAITING,
)
# The index covers only unscored tasks, because an index of all tasks would cause random writes.
_UNSCORED = "task_group IS NOT NULL AND scored_in IS NULL"
PartialIndex(
    "unscored_task",
    task.c.task_group,
    where=_UNSCORED,
)

# Groups that are not closed yet. Only rules with `close = terminal` use this table.
open_group = Table(
    "open_group",
    metadata,
    Column("task_group", LargeBinary, primary_key=True),
    Column("tasks", LargeBinary, nullable=False),  # 32 bytes each, joined
    Column("closed", Boolean, nullable=False),
)

# Groups whose results were compared.
group_result = Table(
    "group_result",
    metadata,
    *_build_position_columns(is_key=True),
    Column("task_group", LargeBinary, nullable=False, index=True),
    Column("time", BigInteger, nullable=False),
    Column("scored", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

# Members of a group, with rank and score.
group_member = Table(
    "group_member",
    metadata,
    *_build_position_columns(is_key=True),
    Column("place", BigInteger, primary_key=True, autoincrement=False),  # from 0, in chain order
    Column("task", LargeBinary, nullable=False),
    Column("node", LargeBinary),
    Column("rank", BigInteger),
    Column("elapsed", BigInteger),
    Column("score", BigInteger),
    sqlite_with_rowid=False,
)

# Every task score of a node, with the rules that produced it.
score = Table(
    "score",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("task", LargeBinary, nullable=False),
    Column("task_group", LargeBinary, nullable=False),
    Column("rank", BigInteger),
    Column("elapsed", BigInteger),
    Column("score", BigInteger, nullable=False),
    *_build_position_columns(is_key=False),
    Column("time", BigInteger, nullable=False),
    # Number of the rule set. It is NULL if the score is from before rule sets were numbered.
    Column("rule_set", SmallInteger),
    Index(None, "block"),
    sqlite_with_rowid=False,
)

# Every change of a node's reliability, with its cause.
reliability_change = Table(
    "reliability_change",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    *_build_position_columns(is_key=True),
    # `seq` is part of the key, because an event may end two parts of a task that run on the same
    # node.
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("cause", Text, nullable=False),
    Column("task", LargeBinary),
    Column("h_before", BigInteger, nullable=False),
    Column("h_after", BigInteger, nullable=False),
    Index(None, "block"),
    sqlite_with_rowid=False,
)

# Every membership change of a node.
membership_change = Table(
    "membership_change",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    *_build_position_columns(is_key=True),
    # `seq` is part of the key, because an event may cause two changes. A join implies that a
    # pending quit took effect just before.
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("transition", Text, nullable=False),
    Index(None, "block"),
    sqlite_with_rowid=False,
)

# Events that broke a rule and were ignored.
anomaly = Table(
    "anomaly",
    metadata,
    *_build_position_columns(is_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # one event may break two
    Column("time", BigInteger, nullable=False),
    Column("rule", Text, nullable=False),
    Column("event", Text, nullable=False),
    sqlite_with_rowid=False,
)

# Intervals in which the kickout of a node was due.
kickout = Table(
    "kickout",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    *_build_position_columns(is_key=True),  # where the interval opened
    Column("closed_block", BigInteger),
    Column("closed_tx", BigInteger),
    Column("closed_log", BigInteger),
    Column("closed_sub", BigInteger),
    sqlite_with_rowid=False,
)
PartialIndex(
    "open_kickout",
    kickout.c.block,
    where="closed_block IS NULL",
)

# How many tasks ended in each minute of block time during the last day, to detect incidents.
end_minute = Table(
    "end_minute",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),  # unix seconds / 60
    Column("ends", BigInteger, nullable=False),
    Column("timeouts", BigInteger, nullable=False),
    # Creator, node, ends and timeouts of each pair. It is NULL after 15 minutes.
    Column("ends_by_key", LargeBinary),
)

# Suspected incidents. The timeouts during an incident are marked.
incident = Table(
    "incident",
    metadata,
    # Number of the incident, from 1. Incidents are numbered in the order in which they were found.
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("creator", LargeBinary),  # NULL for a network outage
    *_build_position_columns(is_key=False),  # where it was found
    Column("found_time", BigInteger, nullable=False),
    # Timeouts between these block times, both included, are marked.
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    # Highest counts within a window.
    Column("nodes", BigInteger, nullable=False),
    Column("timeouts", BigInteger, nullable=False),
    # Position of the incident's end. It is NULL if the incident is open.
    Column("over_block", BigInteger),
    Column("over_tx", BigInteger),
    Column("over_log", BigInteger),
    Column("over_sub", BigInteger),
    Column("over_time", BigInteger),
    Index(None, "until"),
)

# One row: the last event that was folded, and the number of nodes that events have named so far.
last_event = Table(
    "last_event",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    *_build_position_columns(is_key=False),
    Column("time", BigInteger, nullable=False),
    Column("node_count", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)
