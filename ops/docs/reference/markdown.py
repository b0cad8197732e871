"""Renders the head of a page and tables as Markdown, for the generated pages."""

from collections.abc import Iterable, Sequence


def render_head(title: str, made_from: str, *, about: str) -> str:
    """Return the head of a page: its title, an introduction, and the page's source."""
    return (
        f"# {title}\n\n{about}\n"
        f"Do not edit this page: `make reference` generates it from {made_from}.\n"
    )


def render_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; `|` in cells is escaped, and line breaks become spaces."""
    lines = [_render_row(columns), "|" + "---|" * len(columns)]
    lines += [_render_row(row) for row in rows]
    return "\n".join(lines) + "\n"


def _render_row(cells: Iterable[str]) -> str:
    escaped_cells = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped_cells)} |"
