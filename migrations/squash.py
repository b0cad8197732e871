"""Makes the one first migration anew from the tables of the code: `make initial`.

Only until the first release; from then on no migration is edited. It deletes every other one, so
that what an ordinary migration did belongs into `oracle/store/tables` first, where it is already.
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
HEAD = '''"""All tables, made from the code's by migrations/squash.py.

Revision 0001_initial, after none. One transaction on both databases.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001_initial"
down_revision = None
branch_labels = None
depends_on = None

# What Alembic does not make: views and functions, by dialect.
_CREATED = {created}
_DROPPED = {dropped}
'''
_RUN = """    for statement in {name}[op.get_bind().dialect.name]:
        op.get_bind().exec_driver_sql(statement)
"""


def _plain(kind: str, value: object, _: AutogenContext) -> str | Literal[False]:
    """Return our own types as what the database sees of them."""
    return "sa.LargeBinary()" if kind == "type" and isinstance(value, Hex | Wei) else False


def _code(operations: OpContainer | None) -> str:
    lines = render_python_code(operations or OpContainer(), render_item=_plain).splitlines()
    # What Alembic says of every one; ruff lays out the rest.
    return (
        "\n".join(f"    {line.strip()}" for line in lines if not line.strip().startswith("#"))
        + "\n"
    )


def _written(statements: Mapping[str, Sequence[str]]) -> str:
    """Return statements by dialect as Python."""
    lines = []
    for dialect, those in statements.items():
        quoted = ", ".join(f'"""{text}"""' for text in those)
        lines.append(f'"{dialect}": ({quoted},)')
    return "{" + ", ".join(lines) + "}"


def main() -> None:
    """Write the migration, and delete the others."""
    options: dict[str, Any] = {"render_item": _plain}
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        migration = produce_migrations(context, metadata)
    views = {name: _RUN.format(name=name) for name in ("_CREATED", "_DROPPED")}
    steps = [
        f"def upgrade() -> None:\n{_code(migration.upgrade_ops)}{views['_CREATED']}",
        f"def downgrade() -> None:\n{views['_DROPPED']}{_code(migration.downgrade_ops)}",
    ]
    head = HEAD.format(
        created=_written(log_view.CREATE_STATEMENTS), dropped=_written(log_view.DROP_STATEMENTS)
    )
    for old_revision in VERSIONS.glob("*.py"):
        old_revision.unlink()
    FIRST.write_text("\n\n".join([head, *steps]), encoding="utf-8")


if __name__ == "__main__":
    main()
