"""docs/fidelity/: what is said to run in the daemon or in a command is reached from there.

The graph and what it cannot see: docs/explanation/fidelity.md#reach.
"""

import re
from collections.abc import Iterator
from functools import cache

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from oracle.cli.main import build
from tests.house.pages.fidelity import Place, Statement, sources, statements
from tests.house.product import ROOT
from tests.house.reach.definitions import modules
from tests.house.reach.entry_points import DAEMON, commands
from tests.house.reach.reachable import reached_from

LETTERS = [source.letter for source in sources()]
ROWS = [row for row in statements() if not row.is_prose]
COMMAND = "command "


@cache
def everywhere() -> frozenset[Place]:
    """What any command reaches; the daemon is one of them."""
    return frozenset().union(*map(reached_from, commands().values()))


def unreached(row: Statement, place: str) -> list[Place]:
    """What a row says runs in a place, and does not."""
    if place == "contract":
        return [one for one in row.contracts if not is_part_of_a_contract(*one)]
    if place == "library":
        return [one for one in row.ours if one in everywhere()]
    entry = DAEMON if place == "daemon" else commands().get(place.removeprefix(COMMAND))
    return [*row.ours] if entry is None else [p for p in row.ours if p not in reached_from(entry)]


def is_part_of_a_contract(path: str, name: str) -> bool:
    """Tell whether the world may call it, or another function does, or it is emitted."""
    if re.search(rf"function {name}\([^{{;]*\b(?:external|public)\b", (ROOT / path).read_text()):
        return True
    texts = [one.read_text("utf-8") for one in (ROOT / "contracts").rglob("*.sol")]
    said = rf"\bemit {name}\(|(?<!function )(?<!event )(?<!constant )\b{name}\b[(;, )]"
    return any(re.search(said, text) for text in texts)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_row_that_names_code_says_where_it_runs_and_no_other_does(letter: str):
    rows = [row for row in statements() if row.source == letter]
    assert [row.name for row in rows if row.is_prose is bool(row.runs_in)] == []
    strange = {
        row.name: row.runs_in
        for row in rows
        for place in row.places
        if place not in {"daemon", "library", "contract"}
        and place.removeprefix(COMMAND) not in commands()
    }
    assert strange == {}


@pytest.mark.parametrize("letter", LETTERS)
def test_what_a_row_names_runs_where_it_says(letter: str):
    lost = {
        f"{row.name} in {place}": missing
        for row in ROWS
        for place in row.places
        if row.source == letter and (missing := unreached(row, place))
    }
    assert lost == {}


@pytest.mark.parametrize("letter", LETTERS)
def test_no_part_of_a_row_is_left_without_a_place(letter: str):
    silent = [
        row.name
        for row in ROWS
        if row.source == letter
        and (
            bool(row.contracts) is not ("contract" in row.places)
            or bool(row.ours) is not bool({*row.places} - {"contract"})
        )
    ]
    assert silent == []


@pytest.mark.parametrize("letter", LETTERS)
def test_what_the_daemon_reaches_is_not_told_as_a_commands(letter: str):
    modest = [
        row.name
        for row in ROWS
        if row.source == letter
        and row.ours
        and "daemon" not in row.places
        and not unreached(row, "daemon")
    ]
    assert modest == []


def test_what_runs_nowhere_of_ours_has_its_reason():
    silent = [row.name for row in ROWS if "library" in row.places and not row.decided]
    assert silent == []


# The graph


def test_every_command_that_can_be_typed_is_an_entry_of_the_graph():
    assert sorted(commands()) == sorted(typed(get_command(build())))


def typed(command: object, above: str = "") -> Iterator[str]:
    """Yield the whole name of every command, `report show`."""
    if not isinstance(command, TyperGroup):
        yield above
        return
    for name, one in command.commands.items():
        yield from typed(one, f"{above} {name}".strip())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        # Through a function that is handed on, a method of a class that is made, a generator.
        ("oracle/indexer/loop.py", "_turn"),
        ("oracle/domain/scoring/group_ranking.py", "finishers"),
        ("oracle/dispatch/drawer.py", "BlockDrawer.turn"),
        ("oracle/systems/crynux/candidate_index.py", "CandidateIndex.offer"),
        ("oracle/reporting/report_planner.py", ""),
        ("oracle/domain/scoring/rules.py", "Rules.q_max"),
    ],
)
def test_what_the_daemon_does_is_reached_from_its_command(path: str, name: str):
    assert (path, name) in reached_from(DAEMON)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        # Another command's; of a system that the registry only lists; nobody's at all.
        ("oracle/cli/inspect/explain_commands.py", "explain"),
        ("lab/attack/attack.py", ""),
        ("devnet/demo/show.py", ""),
        ("tests/house/pages/fidelity.py", ""),
    ],
)
def test_what_the_daemon_does_not_do_is_not_reached(path: str, name: str):
    assert (path, name) not in reached_from(DAEMON)


def test_all_that_is_reached_is_there():
    assert {path for path, _ in everywhere()} <= modules().keys()
