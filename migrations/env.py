"""Runs migrations on the connection that `oracle.store.schema` hands over, in its transaction."""

import pkgutil
from importlib import import_module

from alembic import context

from oracle.store import tables
from oracle.store.tables.metadata import metadata

# Importing them puts their tables into the metadata, which `alembic check` compares.
for found in pkgutil.iter_modules(tables.__path__, f"{tables.__name__}."):
    import_module(found.name)

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
