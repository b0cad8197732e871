"""The folder of a service: complete, renewed by each version, with the operator's files kept."""

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.support.cli.refusal import run_refused_command

# Files that the operator or `make docs` creates.
_CREATED_LATER = {"config/local.toml", "build/site"}
_EXPOSURE_LIMIT = 20  # tenths, of 100


def test_rerunning_service_init_replaces_only_generated_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert run(["service", "init", str(tmp_path)]) == 0
    compose = (tmp_path / "compose.yaml").read_text("utf-8")
    changed = ("compose.override.yaml", ".env", "ops/alertmanager/alertmanager.yml")
    for name in ("compose.yaml", *changed):
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write("# changed\n")
    capsys.readouterr()
    assert run(["service", "init", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["kept"]) == set(changed)
    assert "compose.yaml" in answer["written"]
    assert (tmp_path / "compose.yaml").read_text("utf-8") == compose
    assert all((tmp_path / name).read_text("utf-8").endswith("# changed\n") for name in changed)


def test_service_folder_contains_every_file_that_compose_mounts(tmp_path: Path):
    assert run(["service", "init", str(tmp_path)]) == 0
    compose = (tmp_path / "compose.yaml").read_text("utf-8")
    mounts = set(re.findall(r"^      - \./([^:\n]+):", compose, re.MULTILINE))
    assert {name for name in mounts if not (tmp_path / name).exists()} == _CREATED_LATER
    assert "QOS_ORACLE_VERSION" not in compose
    environment = (tmp_path / ".env").read_text("utf-8")
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert set(re.findall(r"\$\{(\w+)", compose)) == set(
        re.findall(r"^(\w+)=.{32}$", environment, re.MULTILINE)
    )


def test_override_file_is_accepted_by_docker_compose_1_29(tmp_path: Path):
    assert run(["service", "init", str(tmp_path)]) == 0
    override = (tmp_path / "compose.override.yaml").read_text("utf-8")
    assert re.search(r"^services:\n  daemon: \{\}\n", override, re.MULTILINE)
    docker_compose = shutil.which("docker-compose")
    if docker_compose is not None:
        subprocess.run([docker_compose, "config", "--quiet"], cwd=tmp_path, check=True)


def test_compose_file_not_generated_by_init_is_not_replaced(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (tmp_path / "compose.yaml").write_text("services: {}\n", "utf-8")
    refusal = run_refused_command(capsys, "service", "init", str(tmp_path))
    assert "not written by `service init`" in refusal
    assert [path.name for path in tmp_path.iterdir()] == ["compose.yaml"]


@pytest.mark.parametrize(
    ("program", "is_hidden"),
    [("/run/user/1000/qos-oracle/bin/python", True), ("/opt/qos-oracle/bin/python", False)],
)
def test_program_hidden_by_systemd_sandbox_causes_a_warning(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: str,
    *,
    is_hidden: bool,
):
    monkeypatch.setattr(sys, "executable", program)
    monkeypatch.setattr(
        shutil,
        "which",
        lambda name, path: f"{path}/{name}",  # as if it were installed there
    )
    assert run(["service", "init", str(tmp_path), "--systemd"]) == 0
    warning = capsys.readouterr().err
    assert ("ProtectHome=yes hides /run/user" in warning) == is_hidden
    unit = (tmp_path / "qos-oracle.service").read_text("utf-8")
    assert "\nProtectHome=yes\n" in unit
    assert f"\nExecStart={Path(program).parent}/qos-oracle run\n" in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_unit_is_valid_and_hardened(tmp_path: Path):
    assert run(["service", "init", str(tmp_path), "--systemd"]) == 0
    systemd_analyze = str(shutil.which("systemd-analyze"))
    unit = tmp_path / "qos-oracle.service"
    override = tmp_path / "qos-oracle.service.d/override.conf"
    override.write_text(f"{override.read_text('utf-8')}MemoryMax=4G\n", "utf-8")
    assert run(["service", "init", str(tmp_path), "--systemd"]) == 0
    assert override.read_text("utf-8").endswith("MemoryMax=4G\n")
    for arguments in (
        ["verify", "--man=no"],
        ["security", "--offline=true", f"--threshold={_EXPOSURE_LIMIT}"],
    ):
        completed = subprocess.run(
            [systemd_analyze, *arguments, str(unit)], capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
