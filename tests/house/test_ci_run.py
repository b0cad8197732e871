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


@pytest.mark.parametrize("codes", [(0, 0), (3, 0), (0, 4), (3, 4), (0, 5, 0), (3, 0, 4)])
def test_failed_ci_step_fails_the_run_and_all_output_is_shown(tmp_path, codes: tuple[int, ...]):
    names = [f"step_{number}" for number in range(len(codes))]
    steps = "".join(
        f"{name}() {{ echo {name}; (exit {code}); echo {name} is complete; }}\n"
        for name, code in zip(names, codes, strict=True)
    )
    script = f"""
        set -eu
        logs={tmp_path}
        {read_function("run_in_parallel")}
        {steps}
        run_in_parallel {" ".join(names)}
        echo next step
    """
    ran = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)

    lines = ran.stdout.splitlines()
    assert {*names} <= {*lines}
    assert [f"{name} is complete" in lines for name in names] == [code == 0 for code in codes]
    assert ran.returncode == next(filter(None, codes), 0)
    assert ("next step" in lines) == (not any(codes))


def test_ci_runs_every_step_once():
    body = re.sub(r"^#.*", "", RUN, flags=re.MULTILINE)
    steps = set(re.findall(r"\bstep ([a-z]+) ", body))

    assert steps >= {
        "install",
        "quick",
        "slow",
        "stranger",
        "slither",
        "halmos",
        "mutants",
        "benchmarks",
    }
    (parallel_functions,) = re.findall(r"^run_in_parallel (.+)$", body, re.MULTILINE)
    assert parallel_functions.split() == ["stranger_and_audits", "mutants_and_benchmarks", "slow"]
