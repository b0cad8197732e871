"""How a page is written: a title, what it was made from, tables."""

from collections.abc import Iterable, Sequence


def head(title: str, made_from: str, *, about: str) -> str:
    """Return the opening of a page."""
    return (
        f"# {title}\n\n{about}\n"
        f"Do not edit this page: `make reference` generates it from {made_from}.\n"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar or the end of a line inside a cell does no harm."""
    lines = [_line(columns), "|" + "---|" * len(columns)]
    lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
