"""The functions of `.ci/run`: steps that run in parallel."""

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
