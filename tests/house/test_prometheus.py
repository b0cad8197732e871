"""What Prometheus is given can be read by it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "ops" / "prometheus"


@pytest.mark.skipif(
    shutil.which("promtool") is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ,
    reason="promtool is not installed; CI has it",
)
@pytest.mark.parametrize(("what", "name"), [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_accepts_what_we_ship(what, name):
    checked = subprocess.run(
        [shutil.which("promtool") or "promtool", "check", what, name],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
