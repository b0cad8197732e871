"""Creates all tables; generated from the table definitions by migrations/squash.py.

This is the first revision. It runs in one transaction on both databases.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001_initial"
down_revision = None
branch_labels = None
depends_on = None

# SQL that Alembic does not generate: views and functions, by dialect.
_CREATED = {"sqlite": ("""
CREATE VIEW log AS
SELECT b.number AS block, r.id & 16777215 AS log_index, b.hash AS block_hash, b.time,
       r.tx_index, r.tx_hash, s.address, CAST(s.topic0 || r.topics AS BLOB) AS topics, coalesce((
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
  SELECT made FROM part ORDER BY at DESC LIMIT 1), x'') AS data,
       1 AS canonical
FROM log_block AS b
JOIN log_row AS r ON r.id >= b.number << 24 AND r.id < (b.number + 1) << 24
JOIN log_source AS s ON s.id = r.source
UNION ALL
SELECT r.block, r.log_index & 16777215, r.block_hash, r.time,
       r.tx_index, r.tx_hash, s.address, CAST(s.topic0 || r.topics AS BLOB), coalesce((
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
  SELECT made FROM part ORDER BY at DESC LIMIT 1), x''), 0
FROM log_orphan AS r
JOIN log_source AS s ON s.id = r.source
""",), "postgresql": ("""
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
""", """
CREATE VIEW log AS
SELECT b.number AS block, r.id & 16777215 AS log_index, b.hash AS block_hash, b.time,
       r.tx_index, r.tx_hash, s.address, s.topic0 || r.topics AS topics, unpacked(r.data) AS data,
       true AS canonical
FROM log_block AS b
JOIN log_row AS r ON r.id >= b.number << 24 AND r.id < (b.number + 1) << 24
JOIN log_source AS s ON s.id = r.source
UNION ALL
SELECT r.block, r.log_index & 16777215, r.block_hash, r.time,
       r.tx_index, r.tx_hash, s.address, s.topic0 || r.topics, unpacked(r.data), false
FROM log_orphan AS r
JOIN log_source AS s ON s.id = r.source
""",)}
_DROPPED = {"sqlite": ("""DROP VIEW log""",), "postgresql": ("""DROP VIEW log""", """DROP FUNCTION unpacked(bytea)""",)}


def upgrade() -> None:
    op.create_table('accepted_round',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('round', sa.BigInteger(), nullable=False),
    sa.Column('as_of', sa.BigInteger(), nullable=False),
    sa.Column('as_of_hash', sa.LargeBinary(), nullable=False),
    sa.Column('root', sa.LargeBinary(), nullable=False),
    sa.Column('config', sa.LargeBinary(), nullable=False),
    sa.Column('signer_bitmap', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx', 'log', 'sub', name=op.f('pk_accepted_round'))
    )
    op.create_index(op.f('ix_accepted_round_round'), 'accepted_round', ['round'], unique=False)
    op.create_table('anomaly',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('seq', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('rule', sa.Text(), nullable=False),
    sa.Column('event', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx', 'log', 'sub', 'seq', name=op.f('pk_anomaly')),
    sqlite_with_rowid=False
    )
    op.create_table('block',
    sa.Column('number', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('parent_hash', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('canonical', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('number', 'hash', name=op.f('pk_block')),
    sqlite_with_rowid=False
    )
    op.create_index('one_canonical_block', 'block', ['number'], unique=True, sqlite_where=sa.text('canonical'), postgresql_where=sa.text('canonical'))
    op.create_table('bookmark',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_bookmark')),
    sqlite_with_rowid=False
    )
    op.create_table('call',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx_index', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('block_hash', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('tx_hash', sa.LargeBinary(), nullable=False),
    sa.Column('sender', sa.LargeBinary(), nullable=False),
    sa.Column('recipient', sa.LargeBinary(), nullable=False),
    sa.Column('value', sa.LargeBinary(), nullable=False),
    sa.Column('input', sa.LargeBinary(), nullable=False),
    sa.Column('succeeded', sa.Boolean(), nullable=False),
    sa.Column('canonical', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx_index', 'block_hash', name=op.f('pk_call')),
    sqlite_with_rowid=False
    )
    op.create_table('contract_setting',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx', 'log', 'sub', name=op.f('pk_contract_setting'))
    )
    op.create_table('coverage',
    sa.Column('scope', sa.LargeBinary(), nullable=False),
    sa.Column('first_block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('last_block', sa.BigInteger(), nullable=False),
    sa.Column('level', sa.SmallInteger(), nullable=False),
    sa.Column('endpoint', sa.Text(), nullable=False),
    sa.Column('audited_by', sa.Text(), nullable=True),
    sa.Column('audited_at', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('scope', 'first_block', name=op.f('pk_coverage')),
    sqlite_with_rowid=False
    )
    op.create_table('cursor',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('number', sa.BigInteger(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('final_number', sa.BigInteger(), nullable=True),
    sa.Column('final_hash', sa.LargeBinary(), nullable=True),
    sa.Column('epoch', sa.BigInteger(), nullable=False),
    sa.CheckConstraint('id = 1', name=op.f('ck_cursor_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_cursor'))
    )
    op.create_table('daemon_health',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('process', sa.Text(), nullable=False),
    sa.Column('reported_ms', sa.BigInteger(), nullable=False),
    sa.Column('findings', sa.Text(), nullable=False),
    sa.Column('ended_ms', sa.BigInteger(), nullable=True),
    sa.Column('failure', sa.Text(), nullable=True),
    sa.CheckConstraint('id = 1', name=op.f('ck_daemon_health_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_daemon_health'))
    )
    op.create_table('dead_letter',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx_index', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log_index', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('block_hash', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('address', sa.LargeBinary(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('error', sa.Text(), nullable=False),
    sa.Column('canonical', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx_index', 'log_index', 'block_hash', name=op.f('pk_dead_letter')),
    sqlite_with_rowid=False
    )
    op.create_table('draw',
    sa.Column('task', sa.LargeBinary(), nullable=False),
    sa.Column('seed_block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('seed_hash', sa.LargeBinary(), nullable=False),
    sa.Column('seed_time', sa.BigInteger(), nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('voided_block', sa.BigInteger(), nullable=True),
    sa.Column('total_weight', sa.LargeBinary(), nullable=False),
    sa.Column('candidate_count', sa.BigInteger(), nullable=False),
    sa.Column('place', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('task', 'seed_block', name=op.f('pk_draw')),
    sqlite_with_rowid=False
    )
    op.create_index('active_draw', 'draw', ['task'], unique=True, sqlite_where=sa.text('voided_block IS NULL'), postgresql_where=sa.text('voided_block IS NULL'))
    op.create_index(op.f('ix_draw_node_draw_seed_block'), 'draw', ['node', 'seed_block'], unique=False)
    op.create_index(op.f('ix_draw_seed_block'), 'draw', ['seed_block'], unique=False)
    op.create_index(op.f('ix_draw_voided_block'), 'draw', ['voided_block'], unique=False)
    op.create_table('draw_epoch',
    sa.Column('start_ms', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('end_ms', sa.BigInteger(), nullable=False),
    sa.Column('seed', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('start_ms', 'seed', name=op.f('pk_draw_epoch'))
    )
    op.create_table('end_minute',
    sa.Column('minute', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('ends', sa.BigInteger(), nullable=False),
    sa.Column('timeouts', sa.BigInteger(), nullable=False),
    sa.Column('ends_by_key', sa.LargeBinary(), nullable=True),
    sa.PrimaryKeyConstraint('minute', name=op.f('pk_end_minute'))
    )
    op.create_table('endpoint_fact',
    sa.Column('endpoint', sa.Text(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('value', sa.Text(), nullable=False),
    sa.Column('expires', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('endpoint', 'name', name=op.f('pk_endpoint_fact')),
    sqlite_with_rowid=False
    )
    op.create_table('feed_cursor',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('stream', sa.BigInteger(), nullable=False),
    sa.Column('settled_id', sa.BigInteger(), nullable=False),
    sa.Column('highest_id', sa.BigInteger(), nullable=False),
    sa.Column('first_id', sa.BigInteger(), nullable=True),
    sa.Column('polled_at', sa.BigInteger(), nullable=False),
    sa.Column('fully_polled_at', sa.BigInteger(), nullable=False),
    sa.Column('changed_at', sa.BigInteger(), nullable=False),
    sa.Column('row_time', sa.BigInteger(), nullable=False),
    sa.Column('settled_to', sa.BigInteger(), nullable=False),
    sa.Column('compared_id', sa.BigInteger(), nullable=False),
    sa.Column('reread_at', sa.BigInteger(), nullable=False),
    sa.Column('polls', sa.BigInteger(), nullable=False),
    sa.CheckConstraint('id = 1', name=op.f('ck_feed_cursor_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_feed_cursor'))
    )
    op.create_table('feed_fault',
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('stream', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('row', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('found_at', sa.BigInteger(), nullable=False),
    sa.Column('detail', sa.Text(), nullable=False),
    sa.Column('accepted_at', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('kind', 'stream', 'row', name=op.f('pk_feed_fault')),
    sqlite_with_rowid=False
    )
    op.create_table('feed_row',
    sa.Column('stream', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('node', sa.Text(), nullable=False),
    sa.Column('task', sa.Text(), nullable=False),
    sa.Column('args', sa.Text(), nullable=False),
    sa.Column('seen_from', sa.BigInteger(), nullable=False),
    sa.Column('seen_to', sa.BigInteger(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=True),
    sa.Column('block', sa.BigInteger(), nullable=True),
    sa.Column('canonical', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('stream', 'id', 'hash', name=op.f('pk_feed_row')),
    sqlite_with_rowid=False
    )
    op.create_index('ix_feed_row_block', 'feed_row', ['block'], unique=False)
    op.create_index('ix_feed_row_task_kind', 'feed_row', ['task', 'kind'], unique=False)
    op.create_table('feed_witness',
    sa.Column('id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_feed_witness'))
    )
    op.create_table('group_member',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('place', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('task', sa.LargeBinary(), nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=True),
    sa.Column('rank', sa.BigInteger(), nullable=True),
    sa.Column('elapsed', sa.BigInteger(), nullable=True),
    sa.Column('score', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('block', 'tx', 'log', 'sub', 'place', name=op.f('pk_group_member')),
    sqlite_with_rowid=False
    )
    op.create_table('group_result',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('task_group', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('scored', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx', 'log', 'sub', name=op.f('pk_group_result')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_group_result_task_group'), 'group_result', ['task_group'], unique=False)
    op.create_table('halt',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('since_block', sa.BigInteger(), nullable=False),
    sa.Column('since_time', sa.BigInteger(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('block', sa.BigInteger(), nullable=True),
    sa.Column('our_hash', sa.LargeBinary(), nullable=True),
    sa.Column('their_hash', sa.LargeBinary(), nullable=True),
    sa.Column('cleared_time', sa.BigInteger(), nullable=True),
    sa.Column('cleared_by', sa.Text(), nullable=True),
    sa.Column('cleared_reason', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_halt'))
    )
    op.create_index('one_active_halt', 'halt', ['name'], unique=True, sqlite_where=sa.text('cleared_time IS NULL'), postgresql_where=sa.text('cleared_time IS NULL'))
    op.create_table('identity',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('chain_id', sa.BigInteger(), nullable=False),
    sa.Column('genesis_hash', sa.LargeBinary(), nullable=False),
    sa.Column('contracts', sa.Text(), nullable=False),
    sa.Column('oracle', sa.LargeBinary(), nullable=True),
    sa.Column('start_block', sa.BigInteger(), nullable=False),
    sa.CheckConstraint('id = 1', name=op.f('ck_identity_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_identity'))
    )
    op.create_table('incident',
    sa.Column('number', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('creator', sa.LargeBinary(), nullable=True),
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('found_time', sa.BigInteger(), nullable=False),
    sa.Column('since', sa.BigInteger(), nullable=False),
    sa.Column('until', sa.BigInteger(), nullable=False),
    sa.Column('nodes', sa.BigInteger(), nullable=False),
    sa.Column('timeouts', sa.BigInteger(), nullable=False),
    sa.Column('over_block', sa.BigInteger(), nullable=True),
    sa.Column('over_tx', sa.BigInteger(), nullable=True),
    sa.Column('over_log', sa.BigInteger(), nullable=True),
    sa.Column('over_sub', sa.BigInteger(), nullable=True),
    sa.Column('over_time', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('number', name=op.f('pk_incident'))
    )
    op.create_index(op.f('ix_incident_until'), 'incident', ['until'], unique=False)
    op.create_table('kick',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('spared_until', sa.BigInteger(), nullable=False),
    sa.Column('allowed', sa.BigInteger(), nullable=False),
    sa.Column('accused_at', sa.Text(), nullable=True),
    sa.Column('accused_in', sa.BigInteger(), nullable=True),
    sa.Column('due_since', sa.BigInteger(), nullable=True),
    sa.Column('ready_at', sa.BigInteger(), nullable=True),
    sa.Column('evidence', sa.LargeBinary(), nullable=True),
    sa.Column('executed_at', sa.Text(), nullable=True),
    sa.Column('executed_in', sa.BigInteger(), nullable=True),
    sa.Column('expelled_until', sa.BigInteger(), nullable=True),
    sa.Column('target', sa.LargeBinary(), nullable=True),
    sa.Column('tried_in', sa.BigInteger(), nullable=True),
    sa.Column('tried_at', sa.Text(), nullable=True),
    sa.Column('refusals', sa.BigInteger(), nullable=True),
    sa.Column('reason', sa.LargeBinary(), nullable=True),
    sa.PrimaryKeyConstraint('node', name=op.f('pk_kick'))
    )
    op.create_table('kickout',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('closed_block', sa.BigInteger(), nullable=True),
    sa.Column('closed_tx', sa.BigInteger(), nullable=True),
    sa.Column('closed_log', sa.BigInteger(), nullable=True),
    sa.Column('closed_sub', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('node', 'block', 'tx', 'log', 'sub', name=op.f('pk_kickout')),
    sqlite_with_rowid=False
    )
    op.create_index('open_kickout', 'kickout', ['block'], unique=False, sqlite_where=sa.text('closed_block IS NULL'), postgresql_where=sa.text('closed_block IS NULL'))
    op.create_table('last_event',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('node_count', sa.BigInteger(), nullable=False),
    sa.CheckConstraint('id = 1', name=op.f('ck_last_event_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_last_event'))
    )
    op.create_table('leaf_piece',
    sa.Column('piece', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('as_of', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('leaf_count', sa.BigInteger(), nullable=False),
    sa.Column('nodes_hash', sa.LargeBinary(), nullable=False),
    sa.Column('words_hash', sa.LargeBinary(), nullable=False),
    sa.Column('open_count', sa.BigInteger(), nullable=False),
    sa.Column('total_weight', sa.BigInteger(), nullable=False),
    sa.Column('leaves', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('piece', 'as_of', name=op.f('pk_leaf_piece'))
    )
    op.create_table('lease',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('holder', sa.Text(), nullable=True),
    sa.Column('epoch', sa.BigInteger(), nullable=False),
    sa.Column('until_ms', sa.BigInteger(), nullable=False),
    sa.CheckConstraint('id = 1', name=op.f('ck_lease_one_row')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_lease'))
    )
    op.create_table('log_block',
    sa.Column('number', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('number', name=op.f('pk_log_block'))
    )
    op.create_table('log_orphan',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log_index', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('block_hash', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('tx_index', sa.Integer(), nullable=False),
    sa.Column('source', sa.Integer(), nullable=False),
    sa.Column('tx_hash', sa.LargeBinary(), nullable=False),
    sa.Column('topics', sa.LargeBinary(), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'log_index', 'block_hash', name=op.f('pk_log_orphan')),
    sqlite_with_rowid=False
    )
    op.create_table('log_row',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=False, nullable=False),
    sa.Column('tx_index', sa.Integer(), nullable=False),
    sa.Column('source', sa.Integer(), nullable=False),
    sa.Column('tx_hash', sa.LargeBinary(), nullable=False),
    sa.Column('topics', sa.LargeBinary(), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_log_row'))
    )
    op.create_table('log_source',
    sa.Column('id', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('address', sa.LargeBinary(), nullable=False),
    sa.Column('topic0', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_log_source')),
    sa.UniqueConstraint('address', 'topic0', name=op.f('uq_log_source_address_topic0'))
    )
    op.create_table('membership_change',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('seq', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('transition', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('node', 'block', 'tx', 'log', 'sub', 'seq', name=op.f('pk_membership_change')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_membership_change_block'), 'membership_change', ['block'], unique=False)
    op.create_table('node',
    sa.Column('address', sa.LargeBinary(), nullable=False),
    sa.Column('seat', sa.BigInteger(), nullable=False),
    sa.Column('membership', sa.Text(), nullable=False),
    sa.Column('paused', sa.Boolean(), nullable=False),
    sa.Column('running', sa.BigInteger(), nullable=False),
    sa.Column('stake', sa.LargeBinary(), nullable=True),
    sa.Column('gpu_name', sa.Text(), nullable=True),
    sa.Column('gpu_vram', sa.BigInteger(), nullable=True),
    sa.Column('version', sa.Text(), nullable=True),
    sa.Column('models', sa.Text(), nullable=False),
    sa.Column('in_use', sa.Text(), nullable=False),
    sa.Column('timeout', sa.BigInteger(), nullable=True),
    sa.Column('pool', sa.LargeBinary(), nullable=False),
    sa.Column('pool_sum', sa.BigInteger(), nullable=False),
    sa.Column('scored', sa.BigInteger(), nullable=False),
    sa.Column('base', sa.BigInteger(), nullable=False),
    sa.Column('since', sa.BigInteger(), nullable=False),
    sa.Column('excluded', sa.Boolean(), nullable=False),
    sa.Column('prior', sa.BigInteger(), nullable=True),
    sa.Column('restarts', sa.BigInteger(), nullable=False),
    sa.Column('kickout_due_since', sa.Text(), nullable=True),
    sa.Column('kickout_due_time', sa.BigInteger(), nullable=True),
    sa.Column('last_scored_at', sa.BigInteger(), nullable=True),
    sa.Column('starts_anew', sa.Boolean(), nullable=False),
    sa.Column('changed_at', sa.BigInteger(), nullable=False),
    sa.Column('recovers_until', sa.BigInteger(), nullable=True),
    sa.Column('window', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('window_sum', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('window_count', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('online_since', sa.BigInteger(), nullable=True),
    sa.Column('online_seconds', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('pending', sa.Text(), nullable=True),
    sa.Column('last_start', sa.BigInteger(), nullable=True),
    sa.Column('downloads', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('address', name=op.f('pk_node')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_node_changed_at'), 'node', ['changed_at'], unique=False)
    op.create_index(op.f('ix_node_recovers_until'), 'node', ['recovers_until'], unique=False)
    op.create_index(op.f('ix_node_seat'), 'node', ['seat'], unique=False)
    op.create_table('node_check',
    sa.Column('chain', sa.Text(), nullable=False),
    sa.Column('node', sa.Text(), nullable=False),
    sa.Column('at_ms', sa.BigInteger(), nullable=False),
    sa.Column('chain_id', sa.BigInteger(), nullable=True),
    sa.Column('height', sa.BigInteger(), nullable=True),
    sa.Column('best', sa.BigInteger(), nullable=True),
    sa.Column('chain_until_ms', sa.BigInteger(), nullable=False),
    sa.Column('sync_until_ms', sa.BigInteger(), nullable=False),
    sa.Column('fault', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('chain', 'node', name=op.f('pk_node_check')),
    sqlite_with_rowid=False
    )
    op.create_table('notice',
    sa.Column('seq', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('block', sa.BigInteger(), nullable=True),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=True),
    sa.Column('subject', sa.Text(), nullable=True),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('undone_by', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('seq', name=op.f('pk_notice')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_notice_block'), 'notice', ['block'], unique=False)
    op.create_index(op.f('ix_notice_undone_by'), 'notice', ['undone_by'], unique=False)
    op.create_index('notice_of', 'notice', ['subject', 'kind'], unique=False)
    op.create_index('notice_of_node', 'notice', ['node', 'seq'], unique=False)
    op.create_table('notify_place',
    sa.Column('target', sa.Text(), nullable=False),
    sa.Column('seq', sa.BigInteger(), nullable=False),
    sa.Column('tries', sa.BigInteger(), nullable=False),
    sa.Column('next_at', sa.BigInteger(), nullable=False),
    sa.Column('last_error', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('target', name=op.f('pk_notify_place')),
    sqlite_with_rowid=False
    )
    op.create_table('objection',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('seq', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('block', sa.BigInteger(), nullable=False),
    sa.Column('tx', sa.BigInteger(), nullable=False),
    sa.Column('log', sa.BigInteger(), nullable=False),
    sa.Column('sub', sa.BigInteger(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('due_since', sa.BigInteger(), nullable=False),
    sa.Column('reason', sa.SmallInteger(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('node', 'seq', name=op.f('pk_objection')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_objection_block'), 'objection', ['block'], unique=False)
    op.create_table('objection_answer',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('due_since', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('is_accepted', sa.Boolean(), nullable=False),
    sa.Column('because', sa.Text(), nullable=False),
    sa.Column('answered_at', sa.BigInteger(), nullable=False),
    sa.Column('signer', sa.LargeBinary(), nullable=True),
    sa.Column('signature', sa.LargeBinary(), nullable=True),
    sa.PrimaryKeyConstraint('node', 'due_since', name=op.f('pk_objection_answer')),
    sqlite_with_rowid=False
    )
    op.create_table('objection_inbox',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('seq', sa.BigInteger(), nullable=False),
    sa.Column('due_since', sa.BigInteger(), nullable=False),
    sa.Column('reason', sa.SmallInteger(), nullable=False),
    sa.Column('text', sa.LargeBinary(), nullable=False),
    sa.Column('deadline', sa.BigInteger(), nullable=False),
    sa.Column('signature', sa.LargeBinary(), nullable=False),
    sa.Column('reserved_gas', sa.BigInteger(), nullable=False),
    sa.Column('received_at', sa.BigInteger(), nullable=False),
    sa.Column('intent_id', sa.BigInteger(), nullable=True),
    sa.Column('ended_at', sa.BigInteger(), nullable=True),
    sa.Column('ended_reason', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_objection_inbox'))
    )
    op.create_index(op.f('ix_objection_inbox_node'), 'objection_inbox', ['node'], unique=False)
    op.create_index(op.f('ix_objection_inbox_received_at'), 'objection_inbox', ['received_at'], unique=False)
    op.create_table('open_group',
    sa.Column('task_group', sa.LargeBinary(), nullable=False),
    sa.Column('tasks', sa.LargeBinary(), nullable=False),
    sa.Column('closed', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('task_group', name=op.f('pk_open_group'))
    )
    op.create_table('planned_download',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('task', sa.LargeBinary(), nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'node', 'model', name=op.f('pk_planned_download')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_planned_download_time'), 'planned_download', ['time'], unique=False)
    op.create_table('pub_account',
    sa.Column('chain_id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('address', sa.LargeBinary(), nullable=False),
    sa.Column('next_nonce', sa.BigInteger(), nullable=False),
    sa.Column('paused', sa.Boolean(), nullable=False),
    sa.Column('pause_reason', sa.Text(), nullable=True),
    sa.Column('pause_class', sa.Text(), nullable=True),
    sa.CheckConstraint('next_nonce >= 0', name=op.f('ck_pub_account_next_nonce')),
    sa.PrimaryKeyConstraint('chain_id', 'address', name=op.f('pk_pub_account'))
    )
    op.create_table('pub_journal',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.Column('intent_id', sa.BigInteger(), nullable=True),
    sa.Column('nonce', sa.BigInteger(), nullable=True),
    sa.Column('attempt_id', sa.BigInteger(), nullable=True),
    sa.Column('event', sa.Text(), nullable=False),
    sa.Column('detail', sa.Text(), nullable=False),
    sa.Column('lease_epoch', sa.BigInteger(), nullable=True),
    sa.Column('actor', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_pub_journal'))
    )
    op.create_index(op.f('ix_pub_journal_intent_id'), 'pub_journal', ['intent_id'], unique=False)
    op.create_table('pub_peer_statement',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('chain_id', sa.BigInteger(), nullable=False),
    sa.Column('contract', sa.LargeBinary(), nullable=False),
    sa.Column('signer', sa.LargeBinary(), nullable=False),
    sa.Column('round', sa.BigInteger(), nullable=False),
    sa.Column('digest', sa.LargeBinary(), nullable=False),
    sa.Column('config', sa.LargeBinary(), nullable=False),
    sa.Column('prev', sa.LargeBinary(), nullable=False),
    sa.Column('as_of_block', sa.BigInteger(), nullable=False),
    sa.Column('as_of_hash', sa.LargeBinary(), nullable=False),
    sa.Column('deadline', sa.BigInteger(), nullable=False),
    sa.Column('root', sa.LargeBinary(), nullable=False),
    sa.Column('signature', sa.LargeBinary(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('received_at', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_pub_peer_statement')),
    sa.UniqueConstraint('signer', 'digest', name=op.f('uq_pub_peer_statement_signer_digest'))
    )
    op.create_index('peer_statement_round', 'pub_peer_statement', ['contract', 'round'], unique=False)
    op.create_table('pub_signature',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('chain_id', sa.BigInteger(), nullable=False),
    sa.Column('contract', sa.LargeBinary(), nullable=False),
    sa.Column('signer', sa.LargeBinary(), nullable=False),
    sa.Column('round', sa.BigInteger(), nullable=False),
    sa.Column('digest', sa.LargeBinary(), nullable=False),
    sa.Column('config', sa.LargeBinary(), nullable=False),
    sa.Column('prev', sa.LargeBinary(), nullable=False),
    sa.Column('as_of_block', sa.BigInteger(), nullable=False),
    sa.Column('as_of_hash', sa.LargeBinary(), nullable=False),
    sa.Column('deadline', sa.BigInteger(), nullable=False),
    sa.Column('root', sa.LargeBinary(), nullable=False),
    sa.Column('signature', sa.LargeBinary(), nullable=False),
    sa.Column('expiry_reason', sa.Text(), nullable=True),
    sa.Column('signed_at', sa.BigInteger(), nullable=False),
    sa.CheckConstraint("expiry_reason IN ('expired', 'as_of_reorged', 'prev_reorged', 'round_taken', 'config_replaced')", name=op.f('ck_pub_signature_expiry_reason')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_pub_signature')),
    sa.UniqueConstraint('signer', 'digest', name=op.f('uq_pub_signature_signer_digest'))
    )
    op.create_index('one_live_signature', 'pub_signature', ['chain_id', 'contract', 'signer', 'round'], unique=True, sqlite_where=sa.text('expiry_reason IS NULL'), postgresql_where=sa.text('expiry_reason IS NULL'))
    op.create_table('raw_checksum',
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('span', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('rows', sa.BigInteger(), nullable=False),
    sa.Column('checksum', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('kind', 'span', name=op.f('pk_raw_checksum')),
    sqlite_with_rowid=False
    )
    op.create_table('relay_outcome',
    sa.Column('number', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('taken_ms', sa.BigInteger(), nullable=False),
    sa.Column('t_ms', sa.BigInteger(), nullable=False),
    sa.Column('chain', sa.Text(), nullable=False),
    sa.Column('node', sa.Text(), nullable=False),
    sa.Column('session', sa.Text(), nullable=False),
    sa.Column('latency_ms', sa.Double(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('outcome_id', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('number', name=op.f('pk_relay_outcome'))
    )
    op.create_index(op.f('ix_relay_outcome_taken_ms'), 'relay_outcome', ['taken_ms'], unique=False)
    op.create_table('reliability_change',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('seq', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('cause', sa.Text(), nullable=False),
    sa.Column('task', sa.LargeBinary(), nullable=True),
    sa.Column('h_before', sa.BigInteger(), nullable=False),
    sa.Column('h_after', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('node', 'block', 'tx', 'log', 'sub', 'seq', name=op.f('pk_reliability_change')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_reliability_change_block'), 'reliability_change', ['block'], unique=False)
    op.create_table('reorg_log',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('ancestor', sa.BigInteger(), nullable=False),
    sa.Column('ancestor_hash', sa.LargeBinary(), nullable=False),
    sa.Column('old_tip', sa.BigInteger(), nullable=False),
    sa.Column('old_hash', sa.LargeBinary(), nullable=False),
    sa.Column('new_tip', sa.BigInteger(), nullable=True),
    sa.Column('new_hash', sa.LargeBinary(), nullable=True),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('endpoints', sa.Text(), nullable=False),
    sa.Column('logs_orphaned', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_reorg_log'))
    )
    op.create_table('report',
    sa.Column('period', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('as_of_number', sa.BigInteger(), nullable=False),
    sa.Column('as_of_hash', sa.LargeBinary(), nullable=False),
    sa.Column('as_of_parent', sa.LargeBinary(), nullable=False),
    sa.Column('as_of_time', sa.BigInteger(), nullable=False),
    sa.Column('head_round', sa.BigInteger(), nullable=False),
    sa.Column('prev', sa.LargeBinary(), nullable=False),
    sa.Column('deadline', sa.BigInteger(), nullable=False),
    sa.Column('root', sa.LargeBinary(), nullable=False),
    sa.Column('changed_nodes', sa.BigInteger(), nullable=False),
    sa.Column('changed_steps', sa.BigInteger(), nullable=False),
    sa.Column('max_changed_steps', sa.BigInteger(), nullable=False),
    sa.Column('crosses_band', sa.Boolean(), nullable=False),
    sa.Column('fingerprint', sa.LargeBinary(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('round', sa.BigInteger(), nullable=True),
    sa.Column('digest', sa.LargeBinary(), nullable=True),
    sa.CheckConstraint("state IN ('due', 'skipped', 'missed', 'landed')", name=op.f('ck_report_state')),
    sa.PrimaryKeyConstraint('period', name=op.f('pk_report'))
    )
    op.create_index('due_report', 'report', ['period'], unique=False, sqlite_where=sa.text("state = 'due'"), postgresql_where=sa.text("state = 'due'"))
    op.create_index(op.f('ix_report_as_of_number'), 'report', ['as_of_number'], unique=False)
    op.create_table('report_hold',
    sa.Column('period', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('facts', sa.Text(), nullable=False),
    sa.Column('held_at', sa.BigInteger(), nullable=False),
    sa.Column('released_at', sa.BigInteger(), nullable=True),
    sa.Column('released_by', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('period', name=op.f('pk_report_hold'))
    )
    op.create_table('rule_set',
    sa.Column('id', sa.SmallInteger(), autoincrement=False, nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('version', sa.BigInteger(), nullable=False),
    sa.Column('sha256', sa.LargeBinary(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_rule_set')),
    sa.UniqueConstraint('sha256', name=op.f('uq_rule_set_sha256'))
    )
    op.create_table('scope',
    sa.Column('id', sa.LargeBinary(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('number', sa.SmallInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_scope')),
    sa.UniqueConstraint('number', name=op.f('uq_scope_number'))
    )
    op.create_table('score',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('seq', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('task', sa.LargeBinary(), nullable=False),
    sa.Column('task_group', sa.LargeBinary(), nullable=False),
    sa.Column('rank', sa.BigInteger(), nullable=True),
    sa.Column('elapsed', sa.BigInteger(), nullable=True),
    sa.Column('score', sa.BigInteger(), nullable=False),
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('rule_set', sa.SmallInteger(), nullable=True),
    sa.PrimaryKeyConstraint('node', 'seq', name=op.f('pk_score')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_score_block'), 'score', ['block'], unique=False)
    op.create_table('signing_embargo',
    sa.Column('chain_id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('contract', sa.LargeBinary(), nullable=False),
    sa.Column('signer', sa.LargeBinary(), nullable=False),
    sa.Column('until', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('chain_id', 'contract', 'signer', name=op.f('pk_signing_embargo'))
    )
    op.create_table('state_snapshot',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('logs', sa.BigInteger(), nullable=False),
    sa.Column('made_by', sa.LargeBinary(), nullable=False),
    sa.Column('body', sa.LargeBinary(), nullable=False),
    sa.Column('checksum', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('block', name=op.f('pk_state_snapshot')),
    sqlite_with_rowid=False
    )
    op.create_table('strike',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('tx', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('log', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sub', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('time', sa.BigInteger(), nullable=False),
    sa.Column('first_round', sa.BigInteger(), nullable=False),
    sa.Column('last_round', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('block', 'tx', 'log', 'sub', name=op.f('pk_strike'))
    )
    op.create_table('subscription',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('channel', sa.Text(), nullable=False),
    sa.Column('target', sa.Text(), nullable=False),
    sa.Column('kinds', sa.Text(), nullable=False),
    sa.Column('secret', sa.LargeBinary(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=True),
    sa.Column('created_at', sa.BigInteger(), nullable=False),
    sa.Column('changed_at', sa.BigInteger(), nullable=False),
    sa.Column('target_hash', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_subscription')),
    sqlite_with_rowid=False
    )
    op.create_index(op.f('ix_subscription_node'), 'subscription', ['node'], unique=False)
    op.create_index(op.f('ix_subscription_target_hash'), 'subscription', ['target_hash'], unique=False)
    op.create_table('subscription_nonce',
    sa.Column('node', sa.LargeBinary(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('node', name=op.f('pk_subscription_nonce')),
    sqlite_with_rowid=False
    )
    op.create_table('task',
    sa.Column('key', sa.LargeBinary(), nullable=False),
    sa.Column('created_at', sa.Text(), nullable=True),
    sa.Column('creator', sa.LargeBinary(), nullable=True),
    sa.Column('fee', sa.LargeBinary(), nullable=True),
    sa.Column('min_vram', sa.BigInteger(), nullable=True),
    sa.Column('required_gpu', sa.Text(), nullable=True),
    sa.Column('required_gpu_vram', sa.BigInteger(), nullable=True),
    sa.Column('models', sa.Text(), nullable=False),
    sa.Column('version', sa.Text(), nullable=True),
    sa.Column('size', sa.BigInteger(), nullable=True),
    sa.Column('kind', sa.Text(), nullable=True),
    sa.Column('timeout', sa.BigInteger(), nullable=True),
    sa.Column('task_group', sa.LargeBinary(), nullable=True),
    sa.Column('queued', sa.Boolean(), nullable=False),
    sa.Column('node', sa.LargeBinary(), nullable=True),
    sa.Column('started_at', sa.Text(), nullable=True),
    sa.Column('started_time', sa.BigInteger(), nullable=True),
    sa.Column('stopped_at', sa.Text(), nullable=True),
    sa.Column('stopped_time', sa.BigInteger(), nullable=True),
    sa.Column('error_reported', sa.Boolean(), nullable=False),
    sa.Column('revealed_at', sa.Text(), nullable=True),
    sa.Column('freed', sa.Boolean(), nullable=False),
    sa.Column('group_size', sa.BigInteger(), nullable=True),
    sa.Column('validated', sa.Boolean(), nullable=False),
    sa.Column('ending', sa.Text(), nullable=True),
    sa.Column('ended_at', sa.Text(), nullable=True),
    sa.Column('ended_time', sa.BigInteger(), nullable=True),
    sa.Column('abort_reason', sa.Text(), nullable=True),
    sa.Column('scored_in', sa.LargeBinary(), nullable=True),
    sa.Column('runs', sa.Text(), nullable=True),
    sa.Column('paid', sa.LargeBinary(), nullable=True),
    sa.Column('seen_at', sa.BigInteger(), nullable=False),
    sa.Column('changed_at', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('key', name=op.f('pk_task'))
    )
    op.create_index('unscored_task', 'task', ['task_group'], unique=False, sqlite_where=sa.text('task_group IS NOT NULL AND scored_in IS NULL'), postgresql_where=sa.text('task_group IS NOT NULL AND scored_in IS NULL'))
    op.create_index('waiting_task', 'task', ['created_at'], unique=False, sqlite_where=sa.text('created_at IS NOT NULL AND node IS NULL AND runs IS NULL AND ending IS NULL'), postgresql_where=sa.text('created_at IS NOT NULL AND node IS NULL AND runs IS NULL AND ending IS NULL'))
    op.create_table('undo',
    sa.Column('block', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('key', sa.LargeBinary(), nullable=False),
    sa.Column('pre_image', sa.LargeBinary(), nullable=True),
    sa.PrimaryKeyConstraint('block', 'kind', 'key', name=op.f('pk_undo')),
    sqlite_with_rowid=False
    )
    op.create_table('verified_block',
    sa.Column('number', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('hash', sa.LargeBinary(), nullable=False),
    sa.Column('level', sa.SmallInteger(), nullable=False),
    sa.Column('endpoint', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('number', 'hash', name=op.f('pk_verified_block')),
    sqlite_with_rowid=False
    )
    op.create_table('pub_intent',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('chain_id', sa.BigInteger(), nullable=False),
    sa.Column('sender', sa.LargeBinary(), nullable=False),
    sa.Column('contract', sa.LargeBinary(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('dedup_key', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('period', sa.BigInteger(), nullable=True),
    sa.Column('round', sa.BigInteger(), nullable=True),
    sa.Column('as_of_block', sa.BigInteger(), nullable=True),
    sa.Column('as_of_hash', sa.LargeBinary(), nullable=True),
    sa.Column('digest', sa.LargeBinary(), nullable=True),
    sa.Column('calldata', sa.LargeBinary(), nullable=False),
    sa.Column('gas_limit', sa.BigInteger(), nullable=True),
    sa.Column('max_cost_wei', sa.LargeBinary(), nullable=True),
    sa.Column('priority', sa.SmallInteger(), nullable=False),
    sa.Column('not_before', sa.BigInteger(), nullable=True),
    sa.Column('deadline', sa.BigInteger(), nullable=True),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), nullable=True),
    sa.Column('superseded_by', sa.BigInteger(), nullable=True),
    sa.Column('error_class', sa.Text(), nullable=True),
    sa.Column('error_text', sa.Text(), nullable=True),
    sa.Column('created_at', sa.BigInteger(), nullable=False),
    sa.Column('updated_at', sa.BigInteger(), nullable=False),
    sa.Column('replaces', sa.BigInteger(), nullable=True),
    sa.Column('yielded_at', sa.BigInteger(), nullable=True),
    sa.Column('exclusive_key', sa.Text(), nullable=True),
    sa.CheckConstraint("state IN ('planned', 'ready', 'assigned', 'live', 'mined', 'final', 'reverted', 'superseded', 'cancelled', 'expired', 'rejected', 'held')", name=op.f('ck_pub_intent_state')),
    sa.CheckConstraint("state NOT IN ('assigned', 'live', 'mined', 'final', 'reverted') OR nonce IS NOT NULL", name=op.f('ck_pub_intent_nonce_bound')),
    sa.ForeignKeyConstraint(['chain_id', 'sender'], ['pub_account.chain_id', 'pub_account.address'], name=op.f('fk_pub_intent_chain_id_sender')),
    sa.ForeignKeyConstraint(['superseded_by'], ['pub_intent.id'], name=op.f('fk_pub_intent_superseded_by')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_pub_intent')),
    sa.UniqueConstraint('chain_id', 'contract', 'dedup_key', name=op.f('uq_pub_intent_chain_id_contract_dedup_key'))
    )
    op.create_index('intent_nonce', 'pub_intent', ['chain_id', 'sender', 'nonce'], unique=False)
    op.create_index('intent_work', 'pub_intent', ['state'], unique=False, sqlite_where=sa.text("state IN ('planned', 'ready', 'assigned', 'live', 'mined')"), postgresql_where=sa.text("state IN ('planned', 'ready', 'assigned', 'live', 'mined')"))
    op.create_index('one_exclusive_call', 'pub_intent', ['chain_id', 'sender', 'contract', 'exclusive_key'], unique=True, sqlite_where=sa.text("exclusive_key IS NOT NULL AND state IN ('ready', 'assigned')"), postgresql_where=sa.text("exclusive_key IS NOT NULL AND state IN ('ready', 'assigned')"))
    op.create_table('pub_nonce',
    sa.Column('chain_id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('sender', sa.LargeBinary(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('intent_id', sa.BigInteger(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('won_attempt', sa.BigInteger(), nullable=True),
    sa.Column('block_number', sa.BigInteger(), nullable=True),
    sa.Column('block_hash', sa.LargeBinary(), nullable=True),
    sa.Column('receipt_status', sa.SmallInteger(), nullable=True),
    sa.Column('gas_used', sa.BigInteger(), nullable=True),
    sa.Column('gas_price_wei', sa.LargeBinary(), nullable=True),
    sa.Column('opened_at', sa.BigInteger(), nullable=False),
    sa.Column('last_bump_at', sa.BigInteger(), nullable=True),
    sa.Column('finalised_at', sa.BigInteger(), nullable=True),
    sa.Column('opened_block', sa.BigInteger(), server_default='0', nullable=False),
    sa.Column('last_bump_block', sa.BigInteger(), nullable=True),
    sa.Column('mined_at', sa.BigInteger(), nullable=True),
    sa.Column('l1_fee_wei', sa.LargeBinary(), nullable=True),
    sa.CheckConstraint("state IN ('open', 'live', 'mined', 'final', 'foreign')", name=op.f('ck_pub_nonce_state')),
    sa.ForeignKeyConstraint(['intent_id'], ['pub_intent.id'], name=op.f('fk_pub_nonce_intent_id')),
    sa.PrimaryKeyConstraint('chain_id', 'sender', 'nonce', name=op.f('pk_pub_nonce'))
    )
    op.create_index('nonce_bumped', 'pub_nonce', ['chain_id', 'sender', 'last_bump_at'], unique=False, sqlite_where=sa.text('last_bump_at IS NOT NULL'), postgresql_where=sa.text('last_bump_at IS NOT NULL'))
    op.create_index('nonce_opened', 'pub_nonce', ['chain_id', 'sender', 'opened_at'], unique=False)
    op.create_index('nonce_work', 'pub_nonce', ['chain_id', 'sender', 'nonce'], unique=False, sqlite_where=sa.text("state IN ('open', 'live', 'mined')"), postgresql_where=sa.text("state IN ('open', 'live', 'mined')"))
    op.create_table('pub_attempt',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('chain_id', sa.BigInteger(), nullable=False),
    sa.Column('sender', sa.LargeBinary(), nullable=False),
    sa.Column('nonce', sa.BigInteger(), nullable=False),
    sa.Column('intent_id', sa.BigInteger(), nullable=False),
    sa.Column('seq', sa.SmallInteger(), nullable=False),
    sa.Column('tx_hash', sa.LargeBinary(), nullable=False),
    sa.Column('raw_tx', sa.LargeBinary(), nullable=False),
    sa.Column('tx_type', sa.SmallInteger(), nullable=False),
    sa.Column('max_fee_wei', sa.LargeBinary(), nullable=False),
    sa.Column('tip_wei', sa.LargeBinary(), nullable=False),
    sa.Column('gas_limit', sa.BigInteger(), nullable=False),
    sa.Column('lease_epoch', sa.BigInteger(), nullable=False),
    sa.Column('signed_at', sa.BigInteger(), nullable=False),
    sa.Column('first_sent_at', sa.BigInteger(), nullable=True),
    sa.Column('last_sent_at', sa.BigInteger(), nullable=True),
    sa.Column('last_sent_block', sa.BigInteger(), nullable=True),
    sa.Column('sends', sa.Integer(), nullable=False),
    sa.Column('last_error_class', sa.Text(), nullable=True),
    sa.Column('last_error_text', sa.Text(), nullable=True),
    sa.Column('reason', sa.Text(), server_default='first', nullable=False),
    sa.Column('first_sent_block', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['chain_id', 'sender', 'nonce'], ['pub_nonce.chain_id', 'pub_nonce.sender', 'pub_nonce.nonce'], name=op.f('fk_pub_attempt_chain_id_sender_nonce')),
    sa.ForeignKeyConstraint(['intent_id'], ['pub_intent.id'], name=op.f('fk_pub_attempt_intent_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_pub_attempt')),
    sa.UniqueConstraint('chain_id', 'sender', 'nonce', 'seq', name=op.f('uq_pub_attempt_chain_id_sender_nonce_seq')),
    sa.UniqueConstraint('tx_hash', name=op.f('uq_pub_attempt_tx_hash'))
    )
    for statement in _CREATED[op.get_bind().dialect.name]:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    for statement in _DROPPED[op.get_bind().dialect.name]:
        op.get_bind().exec_driver_sql(statement)
    op.drop_table('pub_attempt')
    op.drop_index('nonce_work', table_name='pub_nonce', sqlite_where=sa.text("state IN ('open', 'live', 'mined')"), postgresql_where=sa.text("state IN ('open', 'live', 'mined')"))
    op.drop_index('nonce_opened', table_name='pub_nonce')
    op.drop_index('nonce_bumped', table_name='pub_nonce', sqlite_where=sa.text('last_bump_at IS NOT NULL'), postgresql_where=sa.text('last_bump_at IS NOT NULL'))
    op.drop_table('pub_nonce')
    op.drop_index('one_exclusive_call', table_name='pub_intent', sqlite_where=sa.text("exclusive_key IS NOT NULL AND state IN ('ready', 'assigned')"), postgresql_where=sa.text("exclusive_key IS NOT NULL AND state IN ('ready', 'assigned')"))
    op.drop_index('intent_work', table_name='pub_intent', sqlite_where=sa.text("state IN ('planned', 'ready', 'assigned', 'live', 'mined')"), postgresql_where=sa.text("state IN ('planned', 'ready', 'assigned', 'live', 'mined')"))
    op.drop_index('intent_nonce', table_name='pub_intent')
    op.drop_table('pub_intent')
    op.drop_table('verified_block')
    op.drop_table('undo')
    op.drop_index('waiting_task', table_name='task', sqlite_where=sa.text('created_at IS NOT NULL AND node IS NULL AND runs IS NULL AND ending IS NULL'), postgresql_where=sa.text('created_at IS NOT NULL AND node IS NULL AND runs IS NULL AND ending IS NULL'))
    op.drop_index('unscored_task', table_name='task', sqlite_where=sa.text('task_group IS NOT NULL AND scored_in IS NULL'), postgresql_where=sa.text('task_group IS NOT NULL AND scored_in IS NULL'))
    op.drop_table('task')
    op.drop_table('subscription_nonce')
    op.drop_index(op.f('ix_subscription_target_hash'), table_name='subscription')
    op.drop_index(op.f('ix_subscription_node'), table_name='subscription')
    op.drop_table('subscription')
    op.drop_table('strike')
    op.drop_table('state_snapshot')
    op.drop_table('signing_embargo')
    op.drop_index(op.f('ix_score_block'), table_name='score')
    op.drop_table('score')
    op.drop_table('scope')
    op.drop_table('rule_set')
    op.drop_table('report_hold')
    op.drop_index(op.f('ix_report_as_of_number'), table_name='report')
    op.drop_index('due_report', table_name='report', sqlite_where=sa.text("state = 'due'"), postgresql_where=sa.text("state = 'due'"))
    op.drop_table('report')
    op.drop_table('reorg_log')
    op.drop_index(op.f('ix_reliability_change_block'), table_name='reliability_change')
    op.drop_table('reliability_change')
    op.drop_index(op.f('ix_relay_outcome_taken_ms'), table_name='relay_outcome')
    op.drop_table('relay_outcome')
    op.drop_table('raw_checksum')
    op.drop_index('one_live_signature', table_name='pub_signature', sqlite_where=sa.text('expiry_reason IS NULL'), postgresql_where=sa.text('expiry_reason IS NULL'))
    op.drop_table('pub_signature')
    op.drop_index('peer_statement_round', table_name='pub_peer_statement')
    op.drop_table('pub_peer_statement')
    op.drop_index(op.f('ix_pub_journal_intent_id'), table_name='pub_journal')
    op.drop_table('pub_journal')
    op.drop_table('pub_account')
    op.drop_index(op.f('ix_planned_download_time'), table_name='planned_download')
    op.drop_table('planned_download')
    op.drop_table('open_group')
    op.drop_index(op.f('ix_objection_inbox_received_at'), table_name='objection_inbox')
    op.drop_index(op.f('ix_objection_inbox_node'), table_name='objection_inbox')
    op.drop_table('objection_inbox')
    op.drop_table('objection_answer')
    op.drop_index(op.f('ix_objection_block'), table_name='objection')
    op.drop_table('objection')
    op.drop_table('notify_place')
    op.drop_index('notice_of_node', table_name='notice')
    op.drop_index('notice_of', table_name='notice')
    op.drop_index(op.f('ix_notice_undone_by'), table_name='notice')
    op.drop_index(op.f('ix_notice_block'), table_name='notice')
    op.drop_table('notice')
    op.drop_table('node_check')
    op.drop_index(op.f('ix_node_seat'), table_name='node')
    op.drop_index(op.f('ix_node_recovers_until'), table_name='node')
    op.drop_index(op.f('ix_node_changed_at'), table_name='node')
    op.drop_table('node')
    op.drop_index(op.f('ix_membership_change_block'), table_name='membership_change')
    op.drop_table('membership_change')
    op.drop_table('log_source')
    op.drop_table('log_row')
    op.drop_table('log_orphan')
    op.drop_table('log_block')
    op.drop_table('lease')
    op.drop_table('leaf_piece')
    op.drop_table('last_event')
    op.drop_index('open_kickout', table_name='kickout', sqlite_where=sa.text('closed_block IS NULL'), postgresql_where=sa.text('closed_block IS NULL'))
    op.drop_table('kickout')
    op.drop_table('kick')
    op.drop_index(op.f('ix_incident_until'), table_name='incident')
    op.drop_table('incident')
    op.drop_table('identity')
    op.drop_index('one_active_halt', table_name='halt', sqlite_where=sa.text('cleared_time IS NULL'), postgresql_where=sa.text('cleared_time IS NULL'))
    op.drop_table('halt')
    op.drop_index(op.f('ix_group_result_task_group'), table_name='group_result')
    op.drop_table('group_result')
    op.drop_table('group_member')
    op.drop_table('feed_witness')
    op.drop_index('ix_feed_row_task_kind', table_name='feed_row')
    op.drop_index('ix_feed_row_block', table_name='feed_row')
    op.drop_table('feed_row')
    op.drop_table('feed_fault')
    op.drop_table('feed_cursor')
    op.drop_table('endpoint_fact')
    op.drop_table('end_minute')
    op.drop_table('draw_epoch')
    op.drop_index(op.f('ix_draw_voided_block'), table_name='draw')
    op.drop_index(op.f('ix_draw_seed_block'), table_name='draw')
    op.drop_index(op.f('ix_draw_node_draw_seed_block'), table_name='draw')
    op.drop_index('active_draw', table_name='draw', sqlite_where=sa.text('voided_block IS NULL'), postgresql_where=sa.text('voided_block IS NULL'))
    op.drop_table('draw')
    op.drop_table('dead_letter')
    op.drop_table('daemon_health')
    op.drop_table('cursor')
    op.drop_table('coverage')
    op.drop_table('contract_setting')
    op.drop_table('call')
    op.drop_table('bookmark')
    op.drop_index('one_canonical_block', table_name='block', sqlite_where=sa.text('canonical'), postgresql_where=sa.text('canonical'))
    op.drop_table('block')
    op.drop_table('anomaly')
    op.drop_index(op.f('ix_accepted_round_round'), table_name='accepted_round')
    op.drop_table('accepted_round')
