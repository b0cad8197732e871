"""Two steps of `.ci/run` at the same time: the output of both is printed, and each counts."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = (ROOT / ".ci/run").read_text("utf-8")


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 0), (0, 4), (3, 4)])
def test_failure_of_either_step_fails_and_hides_no_output(tmp_path, first: int, second: int):
    (run_in_parallel,) = re.findall(
        r"^run_in_parallel\(\) \{\n.*?^\}\n", RUN, re.MULTILINE | re.DOTALL
    )
    script = f"""
        set -eu
        logs={tmp_path}
        {run_in_parallel}
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
