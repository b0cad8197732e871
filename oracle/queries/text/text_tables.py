"""Prints tables, times and third-party text on a terminal, without control characters."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, get_args
from unicodedata import combining, east_asian_width

import typer

from oracle.domain.fixed_point import format_decimal
from oracle.telemetry.safe_text import escape_unprintable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

TABLE_WIDTH = 100
# Minimum width of a table whose rows are read one by one or parsed by other programs. Its rows
# must not wrap below this width.
WIDE_TABLE_WIDTH = 160
_MAX_TEXT_LENGTH = 40
# Length of `0x` and twelve digits. A hash of this length is rarely ambiguous among a million
# tasks, and commands reject an ambiguous hash.
_SHORT_HASH_LENGTH = 14
# Cells of these columns never wrap, because users copy them.
_NO_WRAP_COLUMNS = ("node", "task", "address")
_GAP = "  "
# Characters of these East_Asian_Width classes take two columns of the terminal.
_WIDE_CLASSES = ("F", "W")


@dataclass(frozen=True, slots=True)
class Column:
    """Marks a model field as a column of text tables with the given title."""

    title: str


def sanitize_text(text: str, max_length: int = _MAX_TEXT_LENGTH) -> str:
    """Cut third-party text to `max_length`, and escape unprintable characters.

    Control characters, line ends and direction marks are shown as Python escapes them, so that a
    name can neither move the cursor nor hide the text after it.
    """
    printable_text = escape_unprintable(text)
    return (
        printable_text
        if len(printable_text) <= max_length
        else f"{printable_text[: max_length - 1]}…"
    )


def format_utc(unix_time: int, time_format: str) -> str:
    """Format a block time as text, or return the raw number if it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(unix_time, UTC).strftime(time_format)
    except (ValueError, OverflowError, OSError):
        return f"{unix_time} s"


def format_block_time(unix_time: int) -> str:
    """Format a block time as UTC text, with seconds."""
    return format_utc(unix_time, "%Y-%m-%d %H:%M:%S UTC")


def build_table(
    model: "type[BaseModel]",
    rows: "Iterable[BaseModel]",
    format_by_field: Mapping[str, Callable[[Any], str]],
) -> tuple[list[str], Iterator[list[str]]]:
    """Return the titles and cells of rows, for the model fields marked as `Column`.

    `format_by_field` maps the name of a field to a function that formats the complete row for this
    field. Other values are converted by `str`, None to a dash, and a `FixedPoint` to a decimal.
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
        cell_value = getattr(row, name)
        if cell_value is None:
            return "-"
        return format_decimal(cell_value, 4) if name in decimal_names else str(cell_value)

    decimal_names = {name for name in columns if _is_fixed_point(model.model_fields[name])}
    return [*columns.values()], ([format_cell(row, name) for name in columns] for row in rows)


def _is_fixed_point(field: "FieldInfo") -> bool:
    """Return whether the type of a field is `FixedPoint`, which JSON contains as a decimal."""
    marks = [*field.metadata]
    for part in get_args(field.annotation):
        marks += getattr(part, "__metadata__", ())
    return any(getattr(mark, "func", None) is format_decimal for mark in marks)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left_columns: Collection[str] = (),
    width: int = TABLE_WIDTH,
    *,
    to_stderr: bool = False,
) -> None:
    """Print rows below their column titles, in the layout of `format_table`."""
    for line in format_table(columns, rows, left_columns, width):
        typer.echo(line, err=to_stderr)


def format_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left_columns: Collection[str] = (),
    width: int = TABLE_WIDTH,
) -> list[str]:
    """Format a table as lines, right-aligned except for name columns and `left_columns`.

    No cell is cut. Addresses and keys are not wrapped, other cells wrap at `width` columns.
    """
    table_rows = [columns, *rows]
    widths = [
        max(map(_count_terminal_columns, column)) for column in zip(*table_rows, strict=True)
    ]
    wrapped_columns = [index for index, name in enumerate(columns) if name not in _NO_WRAP_COLUMNS]
    excess_width = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for _ in range(excess_width if wrapped_columns else 0):
        widest_column = max(wrapped_columns, key=lambda index: widths[index])
        widths[widest_column] = max(1, widths[widest_column] - 1)
    is_left_aligned = [name in left_columns or name in _NO_WRAP_COLUMNS for name in columns]
    table_lines = []
    for row in table_rows:
        cells = [_wrap_cell(cell, size) for cell, size in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            aligned_cells = map(_align_cell, parts, widths, is_left_aligned)
            table_lines.append(_GAP.join(aligned_cells).rstrip())
    return table_lines


def _count_terminal_columns(text: str) -> int:
    """Return the width of a text in terminal columns, counting wide characters as two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(char) else 1 + (east_asian_width(char) in _WIDE_CLASSES) for char in text
    )


def _wrap_cell(cell: str, width: int) -> list[str]:
    if _count_terminal_columns(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False)


def _align_cell(cell: str, width: int, is_left_aligned: bool) -> str:  # noqa: FBT001  mapped
    padding = " " * (width - _count_terminal_columns(cell))
    return cell + padding if is_left_aligned else padding + cell


def print_omitted_count(row_count: int, max_rows: int) -> None:
    """Print how many of `row_count` rows are omitted, if any."""
    if row_count > max_rows:
        typer.echo(f"… and {row_count - max_rows} more; --json lists all")


def print_facts(rows: Iterable[tuple[str, str]], name_width: int) -> None:
    """Print labelled facts below each other, wrapped if the output is a terminal.

    In a pipe, each fact is one line of any length, so that programs can select lines.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for name, value in rows:
        typer.echo("\n".join(format_fact(name, value, name_width, width)))


def format_fact(name: str, value: str, name_width: int, width: int | None) -> list[str]:
    """Format a fact as lines of at most `width` columns, without breaking words."""
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
    """Shorten a task key or hash for tables to a prefix that all commands accept."""
    return f"{name[:_SHORT_HASH_LENGTH]}…"
