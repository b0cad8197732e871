"""Generates the page of commands, with their `--help` texts."""

from collections.abc import Iterator

import typer
from typer.core import TyperCommand, TyperGroup

from oracle.cli.main import build_app
from reference.markdown import render_head

_ABOUT = """\
This page is for operators who look up a command or an option. It contains the `--help` text of
every command.

Exit codes: 0 success, 1 failure (a retry may succeed), 2 invalid input. Every command accepts `-h`
and `--help`.
"""
# The width of help texts, in columns.
_WIDTH = 100


def iter_commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command with its full name, in the order of the `--help` texts."""
    root_group = typer.main.get_command(build_app())
    if not isinstance(root_group, TyperGroup):
        raise TypeError("build_app() returned no command group")
    yield from _iter_group_commands(root_group, "qos-oracle")


def _iter_group_commands(group: TyperGroup, prefix: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _iter_group_commands(command, f"{prefix} {name}")
        elif isinstance(command, TyperCommand):
            yield f"{prefix} {name}", command


def render_page() -> str:
    """Render the page of commands as Markdown."""
    page_parts = [render_head("Commands", "`oracle/cli/`", about=_ABOUT)]
    for name, command in iter_commands():
        context = command.make_context(name, [], resilient_parsing=True)
        context.terminal_width = context.max_content_width = _WIDTH
        page_parts.append(f"## {name}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(page_parts)
