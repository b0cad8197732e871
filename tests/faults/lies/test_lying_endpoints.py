"""Every lie of an endpoint ends in a true database, in a refusal, or in an unproven state."""

import shutil
from pathlib import Path

import pytest

from devnet.fakechain.faults.forging import Depth
from tests.faults.lies.cell_runs import Command, play_cell, run_in_separate_process
from tests.faults.lies.cells import Cell, EndpointSet, Headers, Place
from tests.faults.lies.matrix import list_bounded_cells, list_quick_cells
from tests.faults.lies.verdicts import RIGHT, Verdict, is_steady, judge_runs, judge_second_run

QUICK = list_quick_cells()
# CI plays one of so many cells of the bounded matrix; the night plays all of them.
_ONE_OF = 48
REST = [
    pytest.param(cell, id=cell.name, marks=[] if place % _ONE_OF == 0 else pytest.mark.nightly)
    for place, cell in enumerate(cell for cell in list_bounded_cells() if cell not in QUICK)
]


def play_and_judge(
    cell: Cell, folder: Path, template: Path, command: Command | None = None
) -> Verdict:
    """Play a cell, assert that both runs have a consistent outcome, and return the verdict."""
    shutil.copyfile(template, folder / "oracle.sqlite")
    outcome = play_cell(cell, folder, command)
    assert is_steady(outcome), outcome
    return judge_second_run(outcome)


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=cell.name, marks=[pytest.mark.slow] if place % 3 else [])
        for place, cell in enumerate(QUICK)
    ],
)
def test_false_data_is_repaired_rejected_or_reported_as_unproven(
    cell: Cell, tmp_path: Path, sqlite_template: Path
):
    assert play_and_judge(cell, tmp_path, sqlite_template) in RIGHT


# Two liars and an honest third endpoint that responds. A proof lets the honest endpoint win, and
# without a proof it contradicts the two. Only a whole forged chain of two providers is believed.
MAJORITY_VERDICTS = [
    pytest.param(Headers.WORTHLESS, Depth.BLOCKS, Verdict.UNPROVEN, id="no proof"),
    pytest.param(Headers.TRUE, Depth.BLOCKS, Verdict.EQUAL, id="proof", marks=pytest.mark.slow),
    pytest.param(Headers.TRUE, Depth.CHAIN, Verdict.SILENT, id="fork", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("headers", "depth", "verdict"), MAJORITY_VERDICTS)
def test_two_lying_endpoints_of_three_are_believed_only_about_a_whole_chain(
    headers: Headers, depth: Depth, verdict: Verdict, tmp_path: Path, sqlite_template: Path
):
    cell = Cell("data", EndpointSet.MAJORITY, headers, depth, profile="reference")
    shutil.copyfile(sqlite_template, tmp_path / "oracle.sqlite")

    outcome = play_cell(cell, tmp_path)

    assert judge_runs(outcome) == [verdict, verdict]
    # `status` shows that the honest endpoint is excluded, because it contradicts two providers.
    assert ("quarantined" in outcome.status) == (verdict is Verdict.SILENT)


def test_false_data_is_rejected_after_calibration_by_a_failed_run(
    tmp_path: Path, sqlite_template: Path
):
    """Its windows are below the block at which it gained trust, so the next run accepted them."""
    cell = Cell(
        "emptied",
        EndpointSet.ALONE,
        Headers.MADE_UP_ROOTS,
        Depth.BLOCKS,
        Place.LATE,
        profile="reference",
    )
    assert play_and_judge(cell, tmp_path, sqlite_template) is Verdict.REFUSED


@pytest.mark.slow
@pytest.mark.parametrize("cell", REST)
def test_false_data_at_any_position_is_never_trusted(
    cell: Cell, tmp_path: Path, sqlite_template: Path
):
    assert play_and_judge(cell, tmp_path, sqlite_template) in RIGHT


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [QUICK[2], *(pytest.param(cell, marks=pytest.mark.nightly) for cell in QUICK[3:6])],
    ids=lambda cell: cell.name,
)
def test_separate_process_reaches_the_same_verdict_on_false_data(
    cell: Cell, tmp_path: Path, sqlite_template: Path
):
    (other_folder := tmp_path / "other").mkdir()
    here = play_and_judge(cell, tmp_path, sqlite_template)

    assert play_and_judge(cell, other_folder, sqlite_template, run_in_separate_process) == here
