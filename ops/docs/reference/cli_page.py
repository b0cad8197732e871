"""Every command with its options, as `--help` tells of them."""

import inspect
from collections.abc import Iterator

import typer
from typer.core import TyperCommand, TyperGroup

from oracle.cli.main import build
from reference.markdown import head, table

_ABOUT = """\
Exit codes: 0 done, 1 failed and may pass, 2 wrong input. `-h` and `--help` work everywhere.
"""


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command with its whole name, in the order of `--help`."""
    top = typer.main.get_command(build())
    if not isinstance(top, TyperGroup):
        raise TypeError("the command line has no commands")
    yield from _below(top, "qos-oracle")


def _below(group: TyperGroup, called: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, one in group.commands.items():
        if isinstance(one, TyperGroup):
            yield from _below(one, f"{called} {name}")
        elif isinstance(one, TyperCommand):
            yield f"{called} {name}", one


def page() -> str:
    """Return the page."""
    parts = [head("Commands", "`oracle/cli/`", about=_ABOUT)]
    for name, command in commands():
        parts.append(f"## {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        rows = [(_written(one), getattr(one, "help", None) or "") for one in command.params]
        if rows:
            parts.append(table(("argument or option", "is"), rows))
    return "\n".join(parts)


def _written(parameter: object) -> str:
    names = [*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ())]
    is_option = any(name.startswith("-") for name in names)
    return ", ".join(f"`{name}`" for name in names) if is_option else f"`{names[0].upper()}`"
