"""Reads docs/fidelity/runs.json: which cited functions ran, in which command.

`make fidelity-runs` writes the file (tests/house/reach/record.py).
"""

import inspect
import json
from functools import cache

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from oracle.cli.main import build_app
from tests.house.pages.fidelity import DATA, Place, Statement

RUNS = DATA / "runs.json"
DAEMON = "daemon"
COMMAND = "command "
CONTRACT = "contract"
# Nothing in this repository calls the function, for the reason that the row's `decided` gives.
LIBRARY = "library"

# By `runs_in` and by command line: the functions that ran.
Runs = dict[str, dict[str, list[str]]]


@cache
def load_recording() -> Runs:
    """Return the recording in the repository."""
    runs: Runs = json.loads(RUNS.read_text("utf-8"))
    return runs


def functions_run(runs: Runs, runs_in: str) -> set[Place]:
    """Return the functions that ran in any recorded process of `runs_in`."""
    places = set()
    for functions in runs.get(runs_in, {}).values():
        for function in functions:
            path, _, name = function.partition("::")
            places.add((path, name))
    return places


def run_mismatches(row: Statement, runs: Runs) -> list[str]:
    """Return how a row's `runs_in` and `not_run` differ from the recording, one line each."""
    cited = set(row.ours)
    excused = row.excused
    lines = [f"not_run names {'::'.join(place)}, `where` does not" for place in excused - cited]
    if row.not_run and not excused:
        lines.append("not_run excuses nothing: the row cites no function")
    for runs_in in row.places:
        if runs_in == CONTRACT:
            continue
        if runs_in == LIBRARY:
            ran = set().union(*(functions_run(runs, process_kind) for process_kind in runs))
            lines += [f"{'::'.join(place)} ran, and is no library" for place in cited & ran]
            continue
        missing = cited - functions_run(runs, runs_in)
        lines += [
            f"{'::'.join(place)} did not run in {runs_in}; not_run says nothing of it"
            for place in missing - excused
        ]
        lines += [
            f"{'::'.join(place)} ran in {runs_in}; not_run says that it did not"
            for place in (excused & cited) - missing
        ]
    return sorted(lines)


@cache
def command_functions() -> dict[str, Place]:
    """Return the function of each command by the full name, for example `report show`."""
    return dict(_command_functions(get_command(build_app()), ""))


def _command_functions(command: object, name: str) -> list[tuple[str, Place]]:
    if isinstance(command, TyperGroup):
        return [
            pair
            for child, subcommand in command.commands.items()
            for pair in _command_functions(subcommand, f"{name} {child}".strip())
        ]
    if not isinstance(command, TyperCommand) or command.callback is None:
        raise TypeError(f"{name}: not a command of Typer")
    callback = inspect.unwrap(command.callback)
    return [(name, (f"{callback.__module__.replace('.', '/')}.py", callback.__qualname__))]


def entry_function(runs_in: str) -> Place:
    """Return the function of the daemon or of a command, by its name in `runs_in`."""
    name = "run" if runs_in == DAEMON else runs_in.removeprefix(COMMAND)
    return command_functions()[name]
