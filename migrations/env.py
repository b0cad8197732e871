"""Runs migrations on the connection that `oracle.store.schema` passes, in its transaction."""

from alembic import context

from oracle.store.tables.metadata import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
