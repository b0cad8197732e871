"""Renders the heads and tables of generated pages as Markdown."""

from collections.abc import Iterable, Sequence


def render_head(title: str, made_from: str, *, about: str) -> str:
    """Render the head of a page with its title, an introduction, and its source."""
    return (
        f"# {title}\n\n{about}\n"
        f"Do not edit this page: `make reference` generates it from {made_from}.\n"
    )


def render_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a Markdown table.

    In cells, `|` is escaped and line breaks become spaces.
    """
    lines = [_render_row(columns), "|" + "---|" * len(columns)]
    lines += [_render_row(row) for row in rows]
    return "\n".join(lines) + "\n"


def _render_row(cells: Iterable[str]) -> str:
    escaped_cells = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped_cells)} |"
