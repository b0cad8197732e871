"""The wheel works without the checkout: installed into an empty environment in another folder."""

import json
import os
import shutil
import subprocess
import tarfile
import venv
from pathlib import Path
from sysconfig import get_path
from zipfile import ZipFile

import pytest

from bootstrap import BY_HASH
from release.wheels import build_sdist, build_wheel, build_wheel_from_sdist, hash_file

ROOT = Path(__file__).resolve().parents[2]

# Building and installing takes a minute; the rest is quick.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# The time of some commit.
COMMITTED = 1_760_000_000
NODE = "0x" + 40 * "1"
OF_OPERATOR = "postgresql://oracle:hunter2@10.0.0.5/oracle"
JOINED = {"type": "node_joined", "block": 1, "tx": 0, "log": 0, "time": 100, "node": NODE}


def ran(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a command outside of the checkout, and return its output.

    The command does not inherit the environment's settings of Python.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel while an operator's own configuration is beside the example."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    apart = ("node_modules", "tests", "docs", "build", "dist", "__pycache__")
    left_out = shutil.ignore_patterns(".*", *apart)
    shutil.copytree(ROOT, checkout, ignore=left_out)
    shutil.copyfile(ROOT / ".gitignore", checkout / ".gitignore")
    (checkout / "config/local.toml").write_text(f'[database]\nurl = "{OF_OPERATOR}"\n', "utf-8")
    return build_wheel(checkout, folder, COMMITTED)


@pytest.fixture(scope="module")
def program(wheel, tmp_path_factory, *, bounded):
    """Return the installed `qos-oracle`, with the library versions that are installed here."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    pip = (folder / "venv/bin/python", "-m", "pip", "install", "--quiet")
    if not bounded:
        ran(folder, *pip, *BY_HASH, "--requirement", ROOT / "constraints/run.txt")
    ran(folder, *pip, "--no-deps", "--no-index", wheel)
    if not bounded:
        ran(folder, folder / "venv/bin/python", "-m", "pip", "check")
    if bounded:
        (site,) = (folder / "venv").glob("lib/python*/site-packages")
        (site / "libraries.pth").write_text(f"{get_path('purelib')}\n", "utf-8")
    return folder / "venv/bin/qos-oracle"


def test_wheel_contains_no_operator_configuration(wheel):
    with ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if "/_shipped/config/" in name}
        assert not [
            name for name in archive.namelist() if OF_OPERATOR.encode() in archive.read(name)
        ]
    assert {Path(name).name for name in shipped} == {
        "crynux.toml",
        "demo.toml",
        "example.toml",
    }


def test_wheel_build_is_reproducible(wheel, tmp_path):
    """In another folder, time zone and locale, with other file times,
    permissions and hash seeds.
    """
    elsewhere = tmp_path / "a checkout of somebody else"
    shutil.copytree(wheel.parent / "checkout", elsewhere, copy_function=shutil.copyfile)
    for path in elsewhere.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o640)
        os.utime(path, (1, 1))
    other_environment = {
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "PYTHONHASHSEED": "7",
        "HOME": str(tmp_path),
    }
    again = build_wheel(elsewhere, tmp_path / "dist", COMMITTED, **other_environment)
    assert (again.name, hash_file(again)) == (wheel.name, hash_file(wheel))


@pytest.fixture(scope="module")
def sdist(wheel):
    """Build the source distribution of the same checkout."""
    return build_sdist(wheel.parent / "checkout", wheel.parent, COMMITTED)


def test_sdist_contains_no_operator_configuration(sdist, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(contents) > 1_000
    assert not [content for content in contents if OF_OPERATOR.encode() in content]


def test_wheel_built_from_sdist_equals_wheel_built_from_checkout(wheel, sdist, tmp_path):
    rebuilt = build_wheel_from_sdist(sdist, tmp_path, COMMITTED)
    assert (rebuilt.name, hash_file(rebuilt)) == (wheel.name, hash_file(wheel))


def test_installed_program_prints_version(program, elsewhere):
    assert ran(elsewhere, program, "--version").startswith("qos-oracle ")


def test_installed_program_creates_database(program, elsewhere):
    settings = {"QOS_ORACLE_DATABASE__URL": f"sqlite:///{elsewhere / 'oracle.sqlite'}"}
    example = ROOT / "config" / "example.toml"
    output = ran(elsewhere, program, "migrate", "--config", example, **settings)
    assert "was upgraded from an empty database to revision" in output
    assert (elsewhere / "oracle.sqlite").exists()


def test_installed_program_writes_service_folder(program, elsewhere):
    ran(elsewhere, program, "service", "init", elsewhere / "service")
    assert (elsewhere / "service/ops/grafana/provisioning/dashboards/qos-oracle.yml").exists()
    ran(elsewhere, program, "service", "init", elsewhere / "unit", "--systemd")
    unit = (elsewhere / "unit/qos-oracle.service").read_text("utf-8")
    assert f"ExecStart={program} run\n" in unit


def test_installed_program_contains_profiles(program, elsewhere):
    contracts = {
        name: "0x" + 39 * "0" + digit for name, digit in (("VSSTask", "1"), ("Node", "2"))
    }
    settings = {
        "QOS_ORACLE_NETWORK__PROFILE": "crynux-vss",
        "QOS_ORACLE_NETWORK__CONTRACTS": json.dumps(contracts),
        "QOS_ORACLE_DATABASE__URL": f"sqlite:///{elsewhere / 'other.sqlite'}",
    }
    (elsewhere / "index.toml").write_text("""
[database]
url = "sqlite:///other.sqlite"
[chain]
id = 7777
endpoints = ["http://127.0.0.1:1"]
[network]
""")
    command = ("config", "check", "--offline", "--config", elsewhere / "index.toml")
    output = ran(elsewhere, program, *command, **settings)
    assert "profile     crynux-vss " in output
    assert f"from {program.parents[1]}" in output


def test_installed_program_replays_event_file(program, elsewhere):
    (elsewhere / "events.jsonl").write_text(json.dumps(JOINED), "utf-8")
    replay = json.loads(ran(elsewhere, program, "replay", elsewhere / "events.jsonl"))
    assert [node["node"] for node in replay["nodes"]] == [NODE]


def test_installed_program_writes_attack_page(program, elsewhere):
    network = ("--tasks", "150", "--nodes", "6", "--jobs", "1", "--html", "attack.html")
    ran(elsewhere, program, "attack", "--rules", "crynux", "--strategy", "silent", *network)
    assert "<h1>Attacks</h1>" in (elsewhere / "attack.html").read_text("utf-8")


@pytest.mark.evm
@pytest.mark.nightly
def test_installed_program_runs_demo(program, elsewhere):
    summary = json.loads(ran(elsewhere, program, "demo", "--json"))
    assert summary["faults"] == []
    assert summary["kickout"]["rejoin"] == "KickedOut"
