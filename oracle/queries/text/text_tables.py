"""Prints tables, times and third-party text on a terminal, without control characters."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import typer

from oracle.telemetry.safe_text import escape_unprintable

if TYPE_CHECKING:
    from pydantic import BaseModel

TABLE_WIDTH = 100
# Width for rows that are read one at a time or parsed by other programs, and so must not wrap.
WIDE_TABLE_WIDTH = 160
_MAX_TEXT_LENGTH = 40
# `0x` and twelve digits: rarely ambiguous among a million tasks, and ambiguity is an error.
_SHORT_HASH_LENGTH = 14
# Columns whose cells are copied elsewhere, and so are never wrapped.
_NO_WRAP_COLUMNS = ("node", "task", "address")


@dataclass(frozen=True, slots=True)
class Column:
    """Marks a model field that text tables show, with the title of its column."""

    title: str


def sanitize_text(text: str, max_length: int = _MAX_TEXT_LENGTH) -> str:
    """Return third-party text, cut to `max_length`, with unprintable characters escaped.

    Control characters, line ends and direction marks are shown as Python escapes them, so that a
    name can neither move the cursor nor hide the text after it.
    """
    shown = escape_unprintable(text)
    return shown if len(shown) <= max_length else f"{shown[: max_length - 1]}…"


def format_utc(unix_time: int, time_format: str) -> str:
    """Return a block time as text, or the raw number if it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(unix_time, UTC).strftime(time_format)
    except (ValueError, OverflowError, OSError):
        return f"{unix_time} s"


def format_block_time(unix_time: int) -> str:
    """Return a block time as text in UTC, to the second."""
    return format_utc(unix_time, "%Y-%m-%d %H:%M:%S UTC")


def build_table(
    model: "type[BaseModel]",
    rows: "Iterable[BaseModel]",
    format_by_field: Mapping[str, Callable[[Any], str]],
) -> tuple[list[str], Iterator[list[str]]]:
    """Return titles and cells of rows, for the fields of the model that have a `Column`.

    `format_by_field` maps the name of a field to the function that formats it from the complete
    row; other values are converted by `str`, None to a dash.
    """
    columns = {
        name: column.title
        for name, field in model.model_fields.items()
        for column in field.metadata
        if isinstance(column, Column)
    }

    def format_cell(row: "BaseModel", name: str) -> str:
        if name in format_by_field:
            return format_by_field[name](row)
        value = getattr(row, name)
        return "-" if value is None else str(value)

    return [*columns.values()], ([format_cell(row, name) for name in columns] for row in rows)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left_columns: Collection[str] = (),
    width: int = TABLE_WIDTH,
    *,
    to_stderr: bool = False,
) -> None:
    """Print rows under their column names, as `format_table` lays them out."""
    for line in format_table(columns, rows, left_columns, width):
        typer.echo(line, err=to_stderr)


def format_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left_columns: Collection[str] = (),
    width: int = TABLE_WIDTH,
) -> list[str]:
    """Return a table as lines; cells align right, except in `left_columns` and name columns.

    No cell is cut: addresses and keys are not wrapped, other cells wrap at `width` columns.
    """
    # Imported here, because a command that prints JSON needs no table.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for name in columns:
        justify: Literal["left", "right"] = (
            "left" if name in left_columns or name in _NO_WRAP_COLUMNS else "right"
        )
        table.add_column(name, justify=justify, no_wrap=name in _NO_WRAP_COLUMNS, overflow="fold")
    for row in rows:
        # Cells are plain text, because a name may look like markup.
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def print_omitted_count(row_count: int, max_rows: int) -> None:
    """Print how many of `row_count` rows are not shown, if there are more than `max_rows`."""
    if row_count > max_rows:
        typer.echo(f"… and {row_count - max_rows} more; --json lists all")


def print_facts(rows: Iterable[tuple[str, str]], name_width: int) -> None:
    """Print labelled facts one below the other, wrapped if the output is a terminal.

    In a pipe, each fact is one line of any length, so that programs can select lines.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for name, value in rows:
        typer.echo("\n".join(format_fact(name, value, name_width, width)))


def format_fact(name: str, value: str, name_width: int, width: int | None) -> list[str]:
    """Return one fact as lines of at most `width` (None: no limit), without breaking words."""
    line = f"{name:<{name_width}}{value}"
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(
        line,
        max(width, 2 * name_width),
        subsequent_indent=" " * name_width,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shorten_hash(name: str) -> str:
    """Return the beginning of a task's key or a hash, for tables; every command accepts it."""
    return f"{name[:_SHORT_HASH_LENGTH]}…"
