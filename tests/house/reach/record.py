"""Runs the demos under coverage.py, and writes docs/fidelity/runs.json: `make fidelity-runs`.

A process counts as the daemon, or as a command, if the body of that command's function ran in it;
the processes of the chain, and those of the lab, have the same modules and do not count. The
native code is hidden, so that the cited Python code runs.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from coverage import CoverageData

from tests.house.pages.fidelity import Place, statements
from tests.house.product import ROOT
from tests.house.reach.field_reads import read_fields, write_request
from tests.house.reach.runs import CONTRACT, DAEMON, LIBRARY, RUNS, Runs, entry_function

_DEMO = ("qos-oracle", "demo", "--json")
_QUEUE = (
    *("qos-oracle", "queue", "--events", "docs/examples/network.jsonl", "--alpha", "1"),
    *("--fixed", "sd=5", "--fixed", "llm=2", "--fixed", "sd_ft=60"),
    *("--unit", "sd=1", "--unit", "llm=1", "--unit", "sd_ft=1"),
)
_GATEWAY = "tests/integration/gateway/test_gateway_process.py"
# `import oracle_native` fails as if the package were not installed.
_HIDDEN_NATIVE = 'raise ImportError("hidden by make fidelity-runs")\n'

# The executed lines of a process, by path.
Lines = Mapping[str, set[int]]
_PROCESS = re.compile(r"\.pid(\d+)\.")


@dataclass(frozen=True, slots=True)
class Play:
    """A command line whose functions are recorded in the processes that `runs_in` names."""

    title: str
    runs_in: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


PLAYS = (
    Play("./demo", DAEMON, _DEMO),
    Play("./demo --system legacy", DAEMON, (*_DEMO, "--system", "legacy")),
    Play("./demo --system crynux-docs", DAEMON, (*_DEMO, "--system", "crynux-docs")),
    Play("./demo --network crynux-relay", DAEMON, (*_DEMO, "--network", "crynux-relay")),
    Play("./demo --network crynux-vss", DAEMON, (*_DEMO, "--network", "crynux-vss")),
    Play("./demo --network crynux-commit", DAEMON, (*_DEMO, "--network", "crynux-commit")),
    Play(
        "QOS_ORACLE_DISPATCH__POLICY=article ./demo --waves 12",
        DAEMON,
        (*_DEMO, "--waves", "12"),
        {"QOS_ORACLE_DISPATCH__POLICY": "article"},
    ),
    Play("qos-oracle queue", "command queue", _QUEUE),
    Play(f"pytest {_GATEWAY}", "command gateway", ("pytest", "-q", "-p", "no:xdist", _GATEWAY)),
)


def main() -> int:
    """Run the plays, and write which of the cited functions ran."""
    parser = argparse.ArgumentParser(description="Record which cited functions the demos run.")
    parser.add_argument("--only", metavar="TITLE", nargs="+", help="plays by title; others stay")
    chosen = parser.parse_args().only
    plays = [play for play in PLAYS if not chosen or play.title in chosen]
    if not plays:
        titles = "; ".join(play.title for play in PLAYS)
        parser.error(f"--only {chosen}: no such play; there is {titles}")
    for play in plays:
        sys.stdout.write(f"{play.title}\n")
        sys.stdout.flush()
        _write(play, record(play), may_keep=bool(chosen) or play is not plays[0])
    return 0


def _write(play: Play, places: set[Place], *, may_keep: bool) -> None:
    """Write the functions that a play ran to the file, in the order of the plays."""
    old: Runs = json.loads(RUNS.read_text("utf-8")) if may_keep and RUNS.exists() else {}
    by_title = {title: functions for runs in old.values() for title, functions in runs.items()}
    by_title[play.title] = sorted("::".join(place) for place in places)
    runs: Runs = {}
    for listed_play in PLAYS:
        if listed_play.title in by_title:
            runs.setdefault(listed_play.runs_in, {})[listed_play.title] = by_title[
                listed_play.title
            ]
    RUNS.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")


def record(play: Play) -> set[Place]:
    """Run a play; return the cited functions that ran in its processes of `runs_in`.

    Raises:
        RuntimeError: the play failed, or no process of `runs_in` took part in it.
    """
    with tempfile.TemporaryDirectory(prefix="fidelity-runs-") as name:
        folder = Path(name)
        _run(play, folder)
        entry = entry_function(play.runs_in)
        processes = {path: _executed_lines(path) for path in sorted(folder.glob("data.*"))}
        members = {path: lines for path, lines in processes.items() if ran(entry, lines)}
        if not members:
            raise RuntimeError(f"{play.title}: {'::'.join(entry)} ran in no process")
        fields = {field for path in members for field in read_fields(folder, _process_of(path))}
    functions = {
        place for place in list_cited_code() for lines in members.values() if ran(place, lines)
    }
    return functions | fields


def _process_of(path: Path) -> int:
    """Return the process that wrote a data file of coverage.py, by the file's name."""
    match = _PROCESS.search(path.name)
    if match is None:
        raise RuntimeError(f"{path.name}: no process in the name of a file of coverage.py")
    return int(match.group(1))


def _run(play: Play, folder: Path) -> None:
    (folder / "oracle_native.py").write_text(_HIDDEN_NATIVE, "utf-8")
    settings = folder / "coveragerc"
    # Only these files: tracing every line would slow the demos down by half.
    entries = {entry_function(play.runs_in) for play in PLAYS}
    traced = sorted({str(ROOT / path) for path, _ in list_cited_code() | entries})
    settings.write_text(
        f"[run]\ninclude = {','.join(traced)}\nparallel = true\ndata_file = {folder / 'data'}\n",
        "utf-8",
    )
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        **play.environment,
        **write_request(folder, ROOT, sorted(filter(_is_field, list_cited_code()))),
        "COVERAGE_PROCESS_START": str(settings),
        "PYTHONPATH": str(folder),
    }
    program, *arguments = play.command
    command = [str(scripts / program), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        text = done.stdout.decode("utf-8", "replace")[-2000:]
        raise RuntimeError(f"{play.title}: exit code {done.returncode}: {text}")


def _executed_lines(path: Path) -> Lines:
    data = CoverageData(str(path))
    data.read()
    return {
        str(Path(file).relative_to(ROOT)): set(data.lines(file) or ())
        for file in data.measured_files()
    }


def list_cited_code() -> set[Place]:
    """Return the cited functions and fields that run in the daemon or in a command."""
    return {
        place for row in statements() if {*row.places} - {CONTRACT, LIBRARY} for place in row.ours
    }


def _is_field(place: Place) -> bool:
    path, name = place
    return name not in bodies(path)


def ran(place: Place, lines: Lines) -> bool:
    """Return whether a line of a function's own body is among the executed lines."""
    path, name = place
    return bool(bodies(path).get(name, set()) & lines.get(path, set()))


@cache
def bodies(path: str) -> Mapping[str, set[int]]:
    """Return the lines of each function's body, without its docstring, by its name in the file.

    A nested function's lines belong only to itself. The `def` line runs at import, and is
    omitted.
    """
    lines_by_function: dict[str, set[int]] = {}
    for name, function in _functions(parse_file(path), ""):
        lines_by_function.setdefault(name, set()).update(_own_lines(function))
    return lines_by_function


def parse_file(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = prefix + child.name
            if isinstance(child, ast.FunctionDef):
                yield name, child
            yield from _functions(child, f"{name}.")
        elif not isinstance(child, ast.expr):
            yield from _functions(child, prefix)


def _own_lines(function: ast.FunctionDef) -> set[int]:
    has_docstring = ast.get_docstring(function) is not None
    statements_ = function.body[1:] if has_docstring else function.body
    lines: set[int] = set()
    for statement in statements_:
        lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    for _, nested in _functions(ast.Module(statements_, []), ""):
        lines.difference_update(range(nested.lineno, (nested.end_lineno or nested.lineno) + 1))
    return lines


if __name__ == "__main__":
    sys.exit(main())
