"""docs/fidelity/: every function that is said to run in the daemon or in a command was recorded
there.

How the recording is made, and its limits: docs/reference/sources.md#reach.
"""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.house.pages.fidelity import Place, Statement, sources, statements
from tests.house.product import ROOT
from tests.house.reach.field_reads import read_fields, write_request
from tests.house.reach.record import PLAYS, bodies, ran
from tests.house.reach.runs import (
    COMMAND,
    CONTRACT,
    DAEMON,
    LIBRARY,
    Runs,
    command_functions,
    entry_function,
    functions_run,
    load_recording,
    run_mismatches,
)

LETTERS = [source.letter for source in sources()]
ROWS = [row for row in statements() if not row.is_prose]


def is_part_of_a_contract(path: str, name: str) -> bool:
    """Return whether a contract's function can be called or is called, or its event is emitted."""
    if re.search(rf"function {name}\([^{{;]*\b(?:external|public)\b", (ROOT / path).read_text()):
        return True
    texts = [source_file.read_text("utf-8") for source_file in (ROOT / "contracts").rglob("*.sol")]
    usage_pattern = rf"\bemit {name}\(|(?<!function )(?<!event )(?<!constant )\b{name}\b[(;, )]"
    return any(re.search(usage_pattern, text) for text in texts)


@pytest.mark.parametrize("letter", LETTERS)
def test_fidelity_row_that_cites_code_states_where_it_runs(letter: str):
    rows = [row for row in statements() if row.source == letter]
    assert [row.name for row in rows if row.is_prose is bool(row.runs_in)] == []
    strange = {
        row.name: row.runs_in
        for row in rows
        for place in row.places
        if place not in {DAEMON, LIBRARY, CONTRACT}
        and place.removeprefix(COMMAND) not in command_functions()
    }
    assert strange == {}


@pytest.mark.parametrize("letter", LETTERS)
def test_cited_function_runs_where_its_row_says_or_has_a_reason(letter: str):
    mismatches = {
        row.name: lines
        for row in ROWS
        if row.source == letter and (lines := run_mismatches(row, load_recording()))
    }
    assert mismatches == {}


@pytest.mark.parametrize("letter", LETTERS)
def test_cited_contract_parts_are_callable_or_emitted(letter: str):
    dead = {
        row.name: parts
        for row in ROWS
        if row.source == letter
        and (parts := [part for part in row.contracts if not is_part_of_a_contract(*part)])
    }
    assert dead == {}


@pytest.mark.parametrize("letter", LETTERS)
def test_row_that_cites_a_contract_or_a_function_states_where_it_runs(letter: str):
    silent = [
        row.name
        for row in ROWS
        if row.source == letter
        and (
            bool(row.contracts) is not (CONTRACT in row.places)
            or bool(row.ours) is not bool({*row.places} - {CONTRACT})
        )
    ]
    assert silent == []


def test_row_whose_functions_run_in_the_daemon_names_the_daemon():
    in_daemon = functions_run(load_recording(), DAEMON)
    modest = [
        row.name
        for row in ROWS
        if row.ours and DAEMON not in row.places and in_daemon.issuperset(row.ours)
    ]
    assert modest == []


def test_row_whose_code_runs_only_in_a_library_has_a_reason():
    silent = [row.name for row in ROWS if LIBRARY in row.places and not row.decided]
    assert silent == []


# The recording


def test_recording_contains_every_scenario_and_only_cited_functions():
    titles = {runs_in: {*plays} for runs_in, plays in load_recording().items()}
    for play in PLAYS:
        assert play.title in titles[play.runs_in]
    assert sum(map(len, titles.values())) == len(PLAYS)
    cited = {place for row in ROWS for place in row.ours}
    stale = [functions_run(load_recording(), runs_in) - cited for runs_in in load_recording()]
    assert [functions for functions in stale if functions] == []


def test_run_command_is_the_entry_function_of_the_daemon():
    assert entry_function(DAEMON) == ("oracle/cli/run_commands.py", "run")
    assert all(bodies(path).get(name) for path, name in command_functions().values())


F = ("oracle/a.py", "C.f")
G = ("oracle/a.py", "D.f")
RECORDED: Runs = {"daemon": {"./demo": ["oracle/a.py::C.f"]}, "command queue": {"queue": []}}


def row_of(*places: Place, not_run: str = "", runs_in: str = DAEMON) -> Statement:
    where = ", ".join(f"`{path}::{name}`" for path, name in places)
    return Statement("Q", 1, "it is so", where, "none: no test", runs_in, not_run)


@pytest.mark.parametrize(
    ("row", "problems"),
    [
        (row_of(F), []),
        # A method with the same name in another class is another function.
        (row_of(G), ["oracle/a.py::D.f did not run in daemon"]),
        (row_of(F, G), ["oracle/a.py::D.f did not run in daemon"]),
        (row_of(G, not_run="the backtest alone runs it"), []),
        (row_of(F, G, not_run="`oracle/a.py::D.f`: the backtest alone runs it"), []),
        (row_of(F, not_run="the backtest alone runs it"), ["C.f ran in daemon"]),
        (row_of(F, G, not_run="the backtest alone runs them"), ["C.f ran in daemon"]),
        (row_of(F, not_run="`oracle/a.py::D.f`: nothing runs it"), ["`where` does not"]),
        (row_of(F, runs_in="command queue"), ["C.f did not run in command queue"]),
        (row_of(F, runs_in=LIBRARY), ["C.f ran, and is no library"]),
        (row_of(runs_in=CONTRACT, not_run="for fun"), ["excuses nothing"]),
    ],
)
def test_row_that_differs_from_the_recording_is_reported(row: Statement, problems: list[str]):
    mismatches = run_mismatches(row, RECORDED)
    assert len(mismatches) == len(problems)
    for mismatch, problem in zip(mismatches, problems, strict=True):
        assert problem in mismatch


def test_reason_for_not_running_is_part_of_the_row():
    row = replace(row_of(G), not_run="`oracle/no_such.py::f`: nothing runs it")
    assert "oracle/no_such.py" in row.words


def test_function_counts_as_run_only_if_a_body_line_is_executed():
    path = "tests/house/reach/record.py"
    lines = bodies(path)
    assert ran((path, "main"), {path: {max(lines["main"])}})
    assert not ran((path, "record"), {path: lines["main"]})
    # The line of `def` and the docstring are executed at import.
    assert not ran((path, "ran"), {path: {min(lines["ran"]) - 1, min(lines["ran"]) - 2}})


def test_fields_of_same_name_are_distinguished_by_owner(tmp_path: Path):
    package = tmp_path / "read_here"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import NamedTuple\n\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Read:\n    size: int\n\n"
        "@dataclass(slots=True)\n"
        "class Compared:\n    size: int\n\n"
        "class Pair(NamedTuple):\n    size: int\n"
    )
    (package / "__main__.py").write_text(
        "from read_here.parts import Compared, Pair, Read\n"
        "pair, compared = Pair(1), Compared(2)\n"
        "compared.size = 3\n"
        "assert compared == Compared(3)\n"
        "print(Read(4).size, repr(compared), pair.size)\n"
    )
    parts = "read_here/parts.py"
    fields = [(parts, f"{owner}.size") for owner in ("Read", "Compared", "Pair")]
    environment = write_request(tmp_path, tmp_path, fields)
    with subprocess.Popen(
        [sys.executable, "-m", "read_here"],
        cwd=ROOT,
        env={**os.environ, **environment, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        output, _ = process.communicate()
    assert output == "4 Compared(size=3) 1\n"
    assert read_fields(tmp_path, process.pid) == {(parts, "Read.size"), (parts, "Pair.size")}
