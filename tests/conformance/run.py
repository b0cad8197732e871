"""Compares an implementation of docs/spec/ with this project's own: `make conformance`.

    python -m tests.conformance.run [--histories 2000] [--seed 1] [--command "PROGRAM ARGUMENT …"]
    python -m tests.conformance.run --write cases.jsonl [--histories 2000] [--seed 1]

The command reads one case a line and prints one answer a line (docs/spec/vectors.md). Without
--command, the JavaScript of the page `/verify` answers. The exit code is 1 if an answer differs.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from oracle.daemon.web.pages.page_frame import STATIC
from tests.conformance.expected_answers import Answer, compute_answer
from tests.conformance.random_cases import Case, iter_cases

SCRIPTS = (
    "vendor/keccak.min.js",
    "hashes.js",
    "proof.js",
    "verify/incidents.js",
    "verify/scoring.js",
    "verify/round.js",
)
# Cases for one process, so that memory stays flat.
_CASES_PER_PROCESS = 200
_MAX_SHOWN = 5


def main() -> int:
    """Compare, or write the cases with their answers; return the exit code."""
    options = _parse_options()
    cases = list(iter_cases(options.seed, options.histories))
    if options.write is not None:
        _write_cases(options.write, cases)
        return 0
    command = shlex.split(options.command) if options.command else build_own_command()
    differences = list(find_differences(cases, command))
    for difference in differences[:_MAX_SHOWN]:
        sys.stdout.write(f"seed {options.seed}, {difference}\n")
    sys.stdout.write(f"{_describe(cases)}; {len(differences)} differences\n")
    return 1 if differences else 0


def build_own_command() -> list[str]:
    """Return the command that runs the scripts of the page `/verify` in Node.js."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("node is not on the PATH; run ./check, or name a program by --command")
    runner = Path(__file__).with_name("answer_cases.js")
    return [node, str(runner), *(str(STATIC / name) for name in SCRIPTS)]


def find_differences(cases: Sequence[Case], command: Sequence[str]) -> Iterator[str]:
    """Yield, for each part of an answer that differs, the number of its case and both values."""
    for first in range(0, len(cases), _CASES_PER_PROCESS):
        part = cases[first : first + _CASES_PER_PROCESS]
        for number, (case, answer) in enumerate(
            zip(part, request_answers(part, command), strict=True), start=first
        ):
            yield from _compare_answers(number, compute_answer(case), answer)


def request_answers(cases: Sequence[Case], command: Sequence[str]) -> list[Answer]:
    """Return the answers of a program; raise CalledProcessError if it fails."""
    completed = subprocess.run(
        command,
        input="\n".join(map(json.dumps, cases)) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in completed.stdout.splitlines()]


def _compare_answers(number: int, expected: Answer, answer: Answer) -> Iterator[str]:
    for name, expected_value in expected.items():
        value = answer.get(name)
        if value != expected_value:
            rows = (expected_value, value)
            if isinstance(expected_value, list) and isinstance(value, list):
                rows = _find_first_difference(expected_value, value)
            yield f"case {number}, {name}: expected {rows[0]}, not {rows[1]}"


def _find_first_difference(expected: list[object], rows: list[object]) -> tuple[object, object]:
    for expected_row, row in zip(expected, rows, strict=False):
        if expected_row != row:
            return expected_row, row
    return f"{len(expected)} rows", f"{len(rows)} rows"


def _describe(cases: Sequence[Case]) -> str:
    answers = [compute_answer(case) for case in cases]
    rules = Counter(row["rule"] for answer in answers for row in answer["anomalies"])
    due_count = sum(row["kickout_due"] for answer in answers for row in answer["nodes"])
    score_count = sum(
        member["score"] is not None
        for answer in answers
        for group in answer["groups"]
        for member in group["members"]
    )
    return (
        f"{len(cases)} histories with {sum(len(case['events']) for case in cases)} events, "
        f"{score_count} scores, {due_count} due kickouts and {rules.total()} anomalies of "
        f"{len(rules)} kinds"
    )


def _write_cases(path: Path, cases: Sequence[Case]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps({**case, "answer": compute_answer(case)}) + "\n")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=2_000, help="number of cases")
    parser.add_argument("--seed", default="1", help="any text; each gives other cases")
    parser.add_argument("--command", help="the implementation to compare")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write cases with answers")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
