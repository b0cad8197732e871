"""Metavars of option values in `--help`: FILE, N or TEXT instead of a Python type.

Typer prints `<int range>` where no metavar is given, and the type after each argument's name.
"""

from collections.abc import Iterator

from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_NUMBERS = ("int", "float")


def name_values(top: TyperCommand | TyperGroup) -> None:
    """Set the value metavars of a command, or of every command in a group."""
    for command in _commands(top):
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = _nothing
            elif isinstance(parameter, TyperOption) and parameter.metavar is None:
                vars(parameter)["display_type_rich"] = _Word(parameter)


def _commands(top: object) -> Iterator[TyperCommand]:
    if isinstance(top, TyperGroup):
        for one in top.commands.values():
            yield from _commands(one)
    elif isinstance(top, TyperCommand):
        yield top


def _nothing(ctx: Context) -> str | None:
    """Hide the type of an argument: its name and help describe it."""
    del ctx
    return None


class _Word:
    """The metavar of one option; choices are listed as the user types them."""

    def __init__(self, option: TyperOption) -> None:
        self._option = option

    def __call__(self, ctx: Context) -> str:
        desc = self._option.type_descriptor
        if desc.is_choice:
            return self._option.display_type(ctx).strip("<>")
        if desc.is_path:
            return "FILE"
        return "N" if desc.is_ranged or self._option.bare_type() in _NUMBERS else "TEXT"
