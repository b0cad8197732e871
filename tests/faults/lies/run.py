"""Plays cells and writes a table of the outcomes.

    .venv/bin/python -m tests.faults.lies.run [--cells whole|bounded|quick] [--seed 1] [--only
    TEXT]                                    [--processes 2] [--table build/lies.md]

The exit code is 1 if a cell was silently wrong, was refused without naming what differs, or had
another outcome at the second run.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from oracle.store.schema import migrate
from tests.faults.lies import matrix
from tests.faults.lies.cell_runs import play_cell
from tests.faults.lies.cells import Cell
from tests.faults.lies.table import Line, render_document
from tests.faults.lies.verdicts import get_last_line, is_steady, judge_second_run

ROOT = Path(__file__).resolve().parents[3]
_SETS: Mapping[str, Callable[[int], Iterable[Cell]]] = {
    "whole": matrix.list_all_cells,
    "bounded": lambda _seed: matrix.list_bounded_cells(),
    "quick": lambda _seed: matrix.list_quick_cells(),
}
_PROGRESS_INTERVAL = 50
# A process keeps 3 MB of every cell that it plays.
_CELLS_OF_A_PROCESS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the cells, write the table, and return the exit code."""
    options = _build_parser().parse_args(arguments)
    cells = [cell for cell in _SETS[options.cells](options.seed) if options.only in cell.name]
    lines = []
    for line in play_cells(cells, options.processes):
        lines.append(line)
        if not line.is_right:
            print_progress(
                f"{line.cell.name}: {line.verdict}{'' if line.is_steady else ', not steady'}"
            )
        if len(lines) % _PROGRESS_INTERVAL == 0:
            print_progress(f"{len(lines)} of {len(cells)} cells")
    path = ROOT / options.table
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_document(lines), "utf-8")
    wrong = sum(not line.is_right for line in lines)
    print_progress(f"{len(lines)} cells, {wrong} wrong; the table is {options.table}")
    return 1 if wrong else 0


def play_cells(cells: Sequence[Cell], processes: int) -> Iterator[Line]:
    """Play cells in separate processes, and yield their results as they finish."""
    with tempfile.TemporaryDirectory(prefix="qos-lies-") as folder:
        template = Path(folder) / "template.sqlite"
        migrate(f"sqlite:///{template}")
        with get_context("spawn").Pool(processes, maxtasksperchild=_CELLS_OF_A_PROCESS) as pool:
            yield from pool.imap_unordered(partial(play_on_copy, template), cells)


def play_on_copy(template: Path, cell: Cell) -> Line:
    """Play one cell on a copy of a migrated database."""
    with tempfile.TemporaryDirectory(prefix="qos-lies-") as folder:
        shutil.copyfile(template, Path(folder) / "oracle.sqlite")
        outcome = play_cell(cell, Path(folder))
    return Line(
        cell,
        judge_second_run(outcome),
        get_last_line(outcome.runs[-1]),
        is_steady=is_steady(outcome),
    )


def print_progress(line: str) -> None:
    """Print a line of progress."""
    print(line, flush=True)  # noqa: T201 - what the command is for


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Play every lie with every set of endpoints.")
    parser.add_argument("--cells", choices=_SETS, default="whole")
    parser.add_argument("--seed", type=int, default=1, help="of the chain")
    parser.add_argument("--only", default="", help="cells with this in their name")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--table", default="build/lies.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
