"""What `--help` calls the value of an option: a word for people, never a type of Python's.

Typer writes `<int range>` where no metavar is given, and the type behind each argument's name.
"""

from collections.abc import Iterator

from typer import Context
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

_NUMBERS = ("int", "float")


def name_values(top: TyperCommand | TyperGroup) -> None:
    """Name the values of a command, or of all that a group has."""
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
    """Leave out an argument's type: its name and help say what it is."""
    del ctx
    return None


class _Word:
    """One option's word; choices are told as they are typed."""

    def __init__(self, option: TyperOption) -> None:
        self._option = option

    def __call__(self, ctx: Context) -> str:
        desc = self._option.type_descriptor
        if desc.is_choice:
            return self._option.display_type(ctx).strip("<>")
        if desc.is_path:
            return "FILE"
        return "N" if desc.is_ranged or self._option.bare_type() in _NUMBERS else "TEXT"
