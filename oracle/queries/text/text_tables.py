"""Prints tables, times and third-party text on a terminal, without control characters."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import typer

from oracle.telemetry.safe_text import escaped

if TYPE_CHECKING:
    from pydantic import BaseModel

WIDTH = 100
# For rows that are read singly or parsed by other programs, and so must not wrap.
WIDE = 160
_LONGEST = 40
# `0x` and twelve digits: rarely ambiguous among a million tasks, and ambiguity is an error.
_CUT = 14
# Columns whose cells are copied elsewhere, and so are never wrapped.
_NAMES = ("node", "task", "address")


@dataclass(frozen=True, slots=True)
class Column:
    """Marks a model field that text tables show, with the title of its column."""

    title: str


def foreign(text: str, longest: int = _LONGEST) -> str:
    """Return third-party text, cut to `max_length`, with unprintable characters escaped.

    Control characters, line ends and direction marks are shown as Python escapes them, so that a
    name can neither move the cursor nor hide the text after it.
    """
    shown = escaped(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def in_utc(seconds: int, form: str) -> str:
    """Return a block time as text, or the raw number if it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s"


def table_of(
    model: "type[BaseModel]",
    rows: "Iterable[BaseModel]",
    texts: Mapping[str, Callable[[Any], str]],
) -> tuple[list[str], Iterator[list[str]]]:
    """Return the titles and the cells of rows: the fields of the model that have a `Column`.

    `format_by_field` maps the name of a field to the function that formats it from the complete
    row; other values are converted by `str`, None to a dash.
    """
    columns = {
        name: mark.title
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Column)
    }

    def cell(row: "BaseModel", name: str) -> str:
        if name in texts:
            return texts[name](row)
        value = getattr(row, name)
        return "-" if value is None else str(value)

    return [*columns.values()], ([cell(row, name) for name in columns] for row in rows)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[str] = (),
    width: int = WIDTH,
    *,
    err: bool = False,
) -> None:
    """Print rows under their column names, as `format_table` lays them out."""
    for line in table_lines(columns, rows, left, width):
        typer.echo(line, err=err)


def table_lines(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[str] = (),
    width: int = WIDTH,
) -> list[str]:
    """Return a table as lines; numbers are aligned right, and the text columns `left_columns` left.

    No cell is cut: addresses and keys are not wrapped, other cells wrap at `width` columns.
    """
    # Imported here, because a command that prints JSON needs no table.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for name in columns:
        justify: Literal["left", "right"] = "left" if name in left or name in _NAMES else "right"
        table.add_column(name, justify=justify, no_wrap=name in _NAMES, overflow="fold")
    for row in rows:
        # Cells are plain text, because a name may look like markup.
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def print_facts(rows: Iterable[tuple[str, str]], name_width: int) -> None:
    """Print labelled facts one below the other, wrapped if the output is a terminal.

    In a pipe each fact is one line of any length, so that programs can cut lines out.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for name, value in rows:
        typer.echo("\n".join(fact_lines(name, value, name_width, width)))


def fact_lines(name: str, value: str, name_width: int, width: int | None) -> list[str]:
    """Return one fact in lines of at most `width`, None: in one line; addresses stay whole."""
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


def cut_hash(name: str) -> str:
    """Return the beginning of a task's key or a hash, for tables; every command accepts it."""
    return f"{name[:_CUT]}…"
