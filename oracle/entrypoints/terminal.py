"""How tables and foreign text are put on a terminal: 100 columns, and no text that acts."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 100
_LONGEST = 40


def foreign(text: str, longest: int = _LONGEST) -> str:
    """Return what somebody else wrote, for people: cut, and escaped where it cannot be printed.

    Control characters, ends of lines and marks that turn the direction of writing are shown as
    Python writes them, so that a name can neither move the cursor nor hide what follows.
    """
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], left: Iterable[str] = ()
) -> None:
    """Print rows under their names; `left` names the columns of text.

    Columns of text fold where the line is full, numbers and addresses never do.
    """
    table = Table(box=None, pad_edge=False)
    wrapped = set(left)
    for name in columns:
        is_text = name in wrapped
        table.add_column(
            name,
            justify="left" if is_text or name == "node" else "right",
            no_wrap=not is_text,
            overflow="fold",
        )
    for row in rows:
        # Not markup: a name may look like it.
        table.add_row(*(Text(cell) for cell in row))
    Console(width=WIDTH).print(table)
