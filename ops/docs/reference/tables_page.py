"""Generates the page of database tables, with their columns and comments."""

from collections.abc import Iterator

from sqlalchemy import Table

from oracle.store.tables import MODULES
from oracle.store.tables.metadata import metadata
from reference.markdown import render_head
from reference.source_comments import read_name_comments

_ABOUT = """\
This page is for operators and developers who query the database. It lists every table and its
columns. The tables may change with a release.

The schema is the same on SQLite and PostgreSQL. Hashes and addresses are bytes, times are in
seconds, and amounts are 32 bytes, big-endian. Columns of the primary key are bold.
"""


def iter_described_tables() -> Iterator[tuple[Table, str]]:
    """Yield every table with the comment above it, or "" without a comment."""
    for module in MODULES:
        comments = read_name_comments(module)
        for name, value in vars(module).items():
            if isinstance(value, Table) and name in comments:
                yield value, comments[name]


def render_page() -> str:
    """Render the page of tables as Markdown, ordered by name.

    Raises:
        LookupError: a table is not defined in a module of `oracle/store/tables`.
    """
    tables_by_name = {table.name: (table, about) for table, about in iter_described_tables()}
    if tables_by_name.keys() != metadata.tables.keys():
        raise LookupError(
            f"tables without a description: {metadata.tables.keys() - tables_by_name.keys()}"
        )
    page_parts = [render_head("Database", "`oracle/store/tables/`", about=_ABOUT)]
    for name in sorted(tables_by_name):
        table, about = tables_by_name[name]
        columns_text = ", ".join(
            _format_column(column.name, key=column.primary_key) for column in table.columns
        )
        page_parts.append(f"## {name}\n\n{about}\n\n{columns_text}\n")
    return "\n".join(page_parts)


def _format_column(name: str, *, key: bool) -> str:
    return f"**`{name}`**" if key else f"`{name}`"
