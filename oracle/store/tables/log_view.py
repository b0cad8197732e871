"""The view `log`, which shows every raw log in ten plain columns.

The columns are `block`, `log_index`, `block_hash`, `time`, `tx_index`, `tx_hash`, `address`,
`topics` (32 bytes each, joined), `data` as emitted, and `canonical`. The view unpacks the data in
SQL (docs/explanation/storage.md#packed); the daemon reads the underlying tables and unpacks in
Python.
"""

from typing import Final

from oracle.domain.logs import LOG_INDEX_BITS, MAX_LOG_INDEX

_BITS: Final = LOG_INDEX_BITS
# The view finds the rows of a block by their keys. A query for a range of blocks therefore reads
# no other rows. Both halves of the union use expressions, because SQLite pushes conditions into a
# union only if the columns of both halves are of the same kind.
_VIEW: Final = f"""
CREATE VIEW log AS
SELECT b.number AS block, r.id & {MAX_LOG_INDEX} AS log_index, b.hash AS block_hash, b.time,
       r.tx_index, r.tx_hash, s.address, {{topics}} AS topics, {{data}} AS data,
       {{true}} AS canonical
FROM log_block AS b
JOIN log_row AS r ON r.id >= b.number << {_BITS} AND r.id < (b.number + 1) << {_BITS}
JOIN log_source AS s ON s.id = r.source
UNION ALL
SELECT r.block, r.log_index & {MAX_LOG_INDEX}, r.block_hash, r.time,
       r.tx_index, r.tx_hash, s.address, {{topics}}, {{data}}, {{false}}
FROM log_orphan AS r
JOIN log_source AS s ON s.id = r.source
"""  # noqa: S608  only constants are inserted

# The casts are needed, because SQLite would otherwise concatenate bytes as text and treat empty
# bytes as NULL. The recursion starts with an empty part.
_SQLITE_DATA: Final = """coalesce((
  WITH RECURSIVE part(at, code, size, made) AS (
    SELECT 0, 96, 0, x''
    UNION ALL
    SELECT at + 1 + size,
           unicode(substr(r.data, at + 1 + size, 1)),
           (unicode(substr(r.data, at + 1 + size, 1)) & 31)
             + (unicode(substr(r.data, at + 1 + size, 1)) >= 64),
           CAST(made || CASE code >> 5
             WHEN 1 THEN zeroblob(32 - size) || substr(r.data, at + 1, size)
             WHEN 2 THEN substr(r.data, at + 1, size) || zeroblob(32 - size)
             ELSE substr(r.data, at + 1, size) END AS BLOB)
    FROM part WHERE at <= length(r.data)
  )
  SELECT made FROM part ORDER BY at DESC LIMIT 1), x'')"""

_POSTGRESQL_FUNCTION: Final = """
CREATE FUNCTION unpacked(packed bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $body$
DECLARE
  place integer := 0;
  code integer;
  size integer;
  part bytea;
  zeros bytea;
  made bytea := '';
BEGIN
  WHILE place < length(packed) LOOP
    code := get_byte(packed, place);
    size := (code & 31) + (code >= 64)::integer;
    part := substr(packed, place + 2, size);
    zeros := decode(repeat('00', 32 - size), 'hex');
    made := made || CASE code >> 5
      WHEN 1 THEN zeros || part
      WHEN 2 THEN part || zeros
      ELSE part END;
    place := place + 1 + size;
  END LOOP;
  RETURN made;
END $body$
"""

# Statements by dialect, in order. The migration runs them after it has created all tables.
CREATE_STATEMENTS: Final = {
    "sqlite": (
        _VIEW.format(
            topics="CAST(s.topic0 || r.topics AS BLOB)", data=_SQLITE_DATA, true=1, false=0
        ),
    ),
    "postgresql": (
        _POSTGRESQL_FUNCTION,
        _VIEW.format(
            topics="s.topic0 || r.topics", data="unpacked(r.data)", true="true", false="false"
        ),
    ),
}
DROP_STATEMENTS: Final = {
    "sqlite": ("DROP VIEW log",),
    "postgresql": ("DROP VIEW log", "DROP FUNCTION unpacked(bytea)"),
}
