"""Regenerates the initial migration from the table definitions: `make initial`.

Use it only until the first release; from then on migrations are never edited. The script deletes
all other migrations, so every schema change must already be in `oracle/store/tables`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.autogenerate.api import AutogenContext
from alembic.migration import MigrationContext
from alembic.operations.ops import OpContainer

from oracle.store.tables import log_view
from oracle.store.tables.metadata import Hex, Wei, metadata

VERSIONS = Path(__file__).parent / "versions"
FIRST = VERSIONS / "0001_initial.py"
HEAD = '''"""Creates all tables; generated from the table definitions by migrations/squash.py.

This is the first revision. It runs in one transaction on both databases.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001_initial"
down_revision = None
branch_labels = None
depends_on = None

# SQL that Alembic does not generate: views and functions, by dialect.
_CREATED = {created}
_DROPPED = {dropped}
'''
_RUN = """    for statement in {name}[op.get_bind().dialect.name]:
        op.get_bind().exec_driver_sql(statement)
"""


def _render_plain_type(kind: str, value: object, _: AutogenContext) -> str | Literal[False]:
    """Return the column type in SQL for the project's own types."""
    return "sa.LargeBinary()" if kind == "type" and isinstance(value, Hex | Wei) else False


def _render_operations(operations: OpContainer | None) -> str:
    lines = render_python_code(
        operations or OpContainer(), render_item=_render_plain_type
    ).splitlines()
    # Drop Alembic's comments; ruff formats the rest.
    return (
        "\n".join(f"    {line.strip()}" for line in lines if not line.strip().startswith("#"))
        + "\n"
    )


def _render_statements(statements: Mapping[str, Sequence[str]]) -> str:
    """Return the statements as Python source, by dialect."""
    lines = []
    for dialect, texts in statements.items():
        quoted = ", ".join(f'"""{text}"""' for text in texts)
        lines.append(f'"{dialect}": ({quoted},)')
    return "{" + ", ".join(lines) + "}"


def main() -> None:
    """Write the initial migration, and delete all others."""
    options: dict[str, Any] = {"render_item": _render_plain_type}
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        migration = produce_migrations(context, metadata)
    views = {name: _RUN.format(name=name) for name in ("_CREATED", "_DROPPED")}
    upgrade = _render_operations(migration.upgrade_ops)
    downgrade = _render_operations(migration.downgrade_ops)
    steps = [
        f"def upgrade() -> None:\n{upgrade}{views['_CREATED']}",
        f"def downgrade() -> None:\n{views['_DROPPED']}{downgrade}",
    ]
    head = HEAD.format(
        created=_render_statements(log_view.CREATE_STATEMENTS),
        dropped=_render_statements(log_view.DROP_STATEMENTS),
    )
    for old_revision in VERSIONS.glob("*.py"):
        old_revision.unlink()
    FIRST.write_text("\n\n".join([head, *steps]), encoding="utf-8")


if __name__ == "__main__":
    main()
