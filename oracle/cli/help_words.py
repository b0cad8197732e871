"""Metavars of option values in `--help`: FILE, N or TEXT instead of a Python type.

By default, Typer prints `<int range>` for an option without a metavar, and adds the type to the
name of each argument.
"""

from collections.abc import Iterator

from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_NUMBER_TYPES = ("int", "float")


def set_value_metavars(command_tree: TyperCommand | TyperGroup) -> None:
    """Set the value metavars of a command, or of every command in a group."""
    for command in _iter_commands(command_tree):
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = _hide_type
            elif isinstance(parameter, TyperOption) and parameter.metavar is None:
                vars(parameter)["display_type_rich"] = _ValueMetavar(parameter)


def _iter_commands(command_tree: object) -> Iterator[TyperCommand]:
    if isinstance(command_tree, TyperGroup):
        for subcommand in command_tree.commands.values():
            yield from _iter_commands(subcommand)
    elif isinstance(command_tree, TyperCommand):
        yield command_tree


def _hide_type(ctx: Context) -> str | None:
    """Hide the type of an argument, because the argument's name and help describe it."""
    del ctx
    return None


class _ValueMetavar:
    """The metavar of one option; choices are listed as the user types them."""

    def __init__(self, option: TyperOption) -> None:
        self._option = option

    def __call__(self, ctx: Context) -> str:
        value_type = self._option.type_descriptor
        if value_type.is_choice:
            return self._option.display_type(ctx).strip("<>")
        if value_type.is_path:
            return "FILE"
        return "N" if value_type.is_ranged or self._option.bare_type() in _NUMBER_TYPES else "TEXT"
