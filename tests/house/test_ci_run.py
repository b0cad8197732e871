"""The functions of `.ci/run`: steps in parallel, and the proofs of changed contracts."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = (ROOT / ".ci/run").read_text("utf-8")


def read_function(name: str) -> str:
    """Return the source of a shell function."""
    (source,) = re.findall(rf"^{name}\(\) \{{\n.*?^\}}\n", RUN, re.MULTILINE | re.DOTALL)
    return str(source)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 0), (0, 4), (3, 4)])
def test_failure_of_either_step_fails_and_hides_no_output(tmp_path, first: int, second: int):
    script = f"""
        set -eu
        logs={tmp_path}
        {read_function("run_in_parallel")}
        first_step() {{ echo first; (exit {first}); echo first is complete; }}
        second_step() {{ echo second; (exit {second}); echo second is complete; }}
        run_in_parallel first_step second_step
        echo next step
    """
    ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)

    lines = ran.stdout.splitlines()
    assert {"first", "second"} <= {*lines}
    assert ("first is complete" in lines, "second is complete" in lines) == (not first, not second)
    assert ran.returncode == (first or second)
    assert ("next step" in lines) == (first == second == 0)


def create_repository(folder: Path, commit_count: int) -> None:
    """Create a repository whose first commit contains a contract and a page."""
    git = ["git", "-C", str(folder)]
    stream = "".join(
        f"commit refs/heads/main\ncommitter a <a@b> {number} +0000\ndata 0\n"
        + (
            "M 644 inline contracts/QoSRoots.sol\ndata 1\n1\nM 644 inline README.md\ndata 1\n1\n"
            if number == 0
            else ""
        )
        for number in range(commit_count)
    )
    subprocess.run(["git", "init", "--quiet", "-b", "main", str(folder)], check=True)  # noqa: S607
    subprocess.run([*git, "fast-import", "--quiet"], input=stream, text=True, check=True)
    subprocess.run([*git, "reset", "--quiet", "--hard"], check=True)


@pytest.mark.parametrize(
    ("commit_count", "changed", "is_proved"),
    [
        (21, None, False),
        (21, "README.md", False),
        (21, "contracts/QoSRoots.sol", True),
        # The commit before the last 20 is missing.
        (20, None, True),
    ],
)
def test_contracts_are_proved_unless_the_last_commits_changed_nothing(
    tmp_path, commit_count: int, changed: str | None, *, is_proved: bool
):
    create_repository(tmp_path, commit_count)
    if changed is not None:
        (tmp_path / changed).write_text("2", "utf-8")
    script = f"""
        set -eu
        python() {{ echo "run $*"; }}
        {read_function("prove_changed_contracts")}
        prove_changed_contracts
    """
    ran = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ("run -m tests.contracts.audit.halmos" in ran.stdout) is is_proved
