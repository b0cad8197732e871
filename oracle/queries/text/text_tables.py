"""How tables, times and foreign text are put on a terminal: 100 columns, and no text that acts."""

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
# For rows that are read one by one, or cut out by other programs: they do not fold.
WIDE = 160
_LONGEST = 40
# `0x` and twelve digits: among a million tasks two seldom begin alike; if so, it is said.
_CUT = 14
# Columns whose cells are looked up elsewhere: never folded.
_NAMES = ("node", "task", "address")


@dataclass(frozen=True, slots=True)
class Column:
    """Annotates a field of a model that tables for people show, under this title."""

    title: str


def foreign(text: str, longest: int = _LONGEST) -> str:
    """Return what somebody else wrote, for people: cut, and escaped where it cannot be printed.

    Control characters, ends of lines and marks that turn the direction of writing are shown as
    Python writes them, so that a name can neither move the cursor nor hide what follows.
    """
    shown = escaped(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def in_utc(seconds: int, form: str) -> str:
    """Return a block time for people; beyond the calendar (some chains count ms) the number."""
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

    `texts` maps the name of a field to how a whole row is written there; other values are written
    as they are, None as a dash.
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
    """Print rows under their names, as `table_lines` has them; `err`: on stderr."""
    for line in table_lines(columns, rows, left, width):
        typer.echo(line, err=err)


def table_lines(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[str] = (),
    width: int = WIDTH,
) -> list[str]:
    """Return the one look of all tables; numbers stand right, the columns of text named `left`.

    Nothing is cut: addresses and keys stay whole, everything else folds after `width` columns.
    """
    # Here, for who prints JSON draws no table.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for name in columns:
        justify: Literal["left", "right"] = "left" if name in left or name in _NAMES else "right"
        table.add_column(name, justify=justify, no_wrap=name in _NAMES, overflow="fold")
    for row in rows:
        # Not markup: a name may look like it.
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def print_facts(rows: Iterable[tuple[str, str]], name_width: int) -> None:
    """Print named facts below each other, folded under themselves where a terminal reads them.

    Into a pipe each is one line, whatever its length: programs cut lines out.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for name, value in rows:
        typer.echo("\n".join(fact_lines(name, value, name_width, width)))


def fact_lines(name: str, value: str, name_width: int, width: int | None) -> list[str]:
    """Return one fact in lines of at most `width`, None: in one; no address is ever broken."""
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
    """Return how a task's key or a hash begins, for tables: every command takes it back so."""
    return f"{name[:_CUT]}…"
