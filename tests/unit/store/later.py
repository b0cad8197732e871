"""Adds a migration that the code does not have: a database of today under the next release."""

import shutil
from pathlib import Path

import pytest

from oracle.resources import find_shipped_path
from oracle.store import schema

REVISION = "9000_later"
_TEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9000_later"
down_revision = "{before}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("later", sa.Column("name", sa.Text(), primary_key=True))
    for table in ("node", "score", "pub_account", "pub_intent", "pub_nonce", "pub_attempt"):
        op.add_column(table, sa.Column("later", sa.BigInteger(), nullable=True))
        op.execute("UPDATE " + table + " SET later = 1")
    op.create_index("later_intent", "pub_intent", ["later"])
    op.execute("INSERT INTO later (name) VALUES ('one')")


def downgrade() -> None:
    raise NotImplementedError
"""


def write_later_migrations(folder: Path) -> Path:
    """Copy the migrations into a folder and add one; return the folder."""
    migrations_folder = folder / "migrations"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(find_shipped_path("migrations"), migrations_folder, ignore=ignored)
    text = _TEXT.replace("{before}", schema.REVISION)
    (migrations_folder / "versions" / f"{REVISION}.py").write_text(text, encoding="utf-8")
    return migrations_folder


def release(monkeypatch: pytest.MonkeyPatch, migrations: Path) -> None:
    """From now on, run as the next release."""
    monkeypatch.setattr(schema, "find_shipped_path", lambda _: migrations)
    monkeypatch.setattr(schema, "REVISION", REVISION)
