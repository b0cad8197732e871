"""Runs migrations on the connection that `oracle.store.schema` hands over, in its transaction."""

from alembic import context

from oracle.store.tables import (
    chain_tables,
    integrity_tables,
    outbox_tables,
    round_tables,
    selection_tables,
    selection_tables as rule_tables,
    state_tables,
)
from oracle.store.tables.metadata import metadata

# Importing them puts their tables into the metadata, which `alembic check` compares.
TABLES = (
    chain_tables,
    selection_tables,
    integrity_tables,
    state_tables,
    outbox_tables,
    round_tables,
    rule_tables,
)

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
