"""Where a run begins: the daemon, and every command by its whole name, `report show`."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.house.product import ROOT
from tests.house.reach.definitions import Place, modules

COMMAND_FOLDERS = ("oracle/cli/", "devnet/commands/", "lab/commands/", "gateway/")
DAEMON: Place = ("oracle/cli/run_commands.py", "run")


@cache
def commands() -> dict[str, Place]:
    """Return the function of each command that is on the command line."""
    groups = dict(_groups())
    return {
        " ".join(filter(None, (_named(group, groups), name))): place
        for group, name, place in _registered()
    }


def _calls(path: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                if _is(one, "command"):
                    # As if the function was given to it.
                    yield ast.Call(one, [ast.Name(node.name)], [])
        elif isinstance(node, ast.Call):
            yield node


def _is(node: ast.expr, name: str) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == name


def _commands_of(path: str) -> Iterator[tuple[ast.Call, ast.Name]]:
    for call in _calls(path):
        given = call.args[0] if call.args else None
        if isinstance(call.func, ast.Call) and _is(call.func, "command"):
            if not isinstance(given, ast.Name):
                raise TypeError(f"{path}: a command that is no function")
            yield call.func, given


def _registered() -> Iterator[tuple[str, str, Place]]:
    """Yield (group, name, function) of all commands; a group by the place of its variable."""
    for path in modules():
        if path.startswith(COMMAND_FOLDERS):
            for command, function in _commands_of(path):
                told = command.args[0] if command.args else None
                name = told.value if isinstance(told, ast.Constant) else function.id
                yield _group(path, command), str(name).replace("_", "-"), (path, function.id)


def _group(path: str, call: ast.Call) -> str:
    """Return where the variable stands that a command is put on, or its bare name."""
    on = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(on, ast.Name):
        raise TypeError(f"{path}: a command on nothing that has a name")
    place = modules()[path].names.get(on.id)
    return on.id if place is None else "::".join(place)


def _named(group: str, groups: dict[str, str]) -> str:
    """Return the name of a group; a variable that a function was given is called as there."""
    same = (name for place, name in groups.items() if place.endswith(f"::{group}"))
    return groups.get(group) or next(same, "")


def _groups() -> Iterator[tuple[str, str]]:
    found = {}
    for path in modules():
        if path.startswith(COMMAND_FOLDERS):
            for call in _calls(path):
                if _is(call, "add_typer") and isinstance(call.args[0], ast.Name):
                    told = next(one.value for one in call.keywords if one.arg == "name")
                    inner = "::".join(modules()[path].names[call.args[0].id])
                    found[inner] = (_group(path, call), str(ast.literal_eval(told)))
    own = {inner: name for inner, (_, name) in found.items()}
    for inner, (outer, name) in found.items():
        yield inner, f"{_named(outer, own)} {name}".strip()
