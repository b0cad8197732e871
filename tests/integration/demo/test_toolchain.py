"""Anvil is installed completely or not at all; the tests provide their own npm."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devnet import toolchain
from oracle.errors import InputError

WRITES_HALF = "mkdir -p {bin}; printf hal > {bin}/anvil; "
NPM_WITHOUT_NETWORK = (
    WRITES_HALF + "echo 'npm error network is away\nnpm error A complete log is in /x' >&2; exit 1"
)
NPM_WHOSE_CALLER_IS_KILLED = WRITES_HALF + "kill -9 $PPID"
NPM = "mkdir -p {bin}; printf whole > {bin}/anvil"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """Simulate a machine without node_modules beside the package,
    with an empty cache and no npm.
    """
    beside = tmp_path / "shipped"
    beside.mkdir()
    for name in ("package.json", "package-lock.json"):
        (beside / name).write_text("{}")
    monkeypatch.setattr(toolchain, "find_shipped_path", lambda name: beside / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def put_npm(folder: Path, script: str) -> None:
    where = f"node_modules/{toolchain._get_platform_package()}/bin"
    npm = folder / "bin" / "npm"
    npm.write_text("#!/bin/sh\n" + script.format(bin=where))
    npm.chmod(0o755)


def test_anvil_of_a_failed_npm_install_is_not_used(bare_machine):
    put_npm(bare_machine, NPM_WITHOUT_NETWORK)
    with pytest.raises(InputError, match=r"npm could not install .*: npm error network is away$"):
        toolchain.find_or_install_anvil()
    assert list((bare_machine / "cache" / "qos-oracle").iterdir()) == []

    put_npm(bare_machine, NPM)
    assert toolchain.find_or_install_anvil().read_text() == "whole"


@pytest.mark.slow
def test_killed_npm_install_leaves_no_partial_installation(bare_machine):
    put_npm(bare_machine, NPM_WHOSE_CALLER_IS_KILLED)
    where = toolchain._get_cache_folder()
    child = f"""
from pathlib import Path
from devnet import toolchain
toolchain.find_shipped_path = Path({str(bare_machine / "shipped")!r}).joinpath
toolchain.find_or_install_anvil()
"""
    killed = subprocess.run([sys.executable, "-c", child], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not where.exists()

    put_npm(bare_machine, NPM)
    assert toolchain.find_or_install_anvil().read_text() == "whole"


def test_missing_npm_is_reported_and_nothing_is_installed(monkeypatch, capsys, bare_machine):
    monkeypatch.setenv("PATH", str(bare_machine / "bin"))
    monkeypatch.setattr(sys, "executable", str(bare_machine / "bin" / "python"))
    with pytest.raises(InputError, match="npm not found; install npm, or run `pip install nodej"):
        toolchain.find_or_install_anvil()
    assert capsys.readouterr().err == ""
    assert not toolchain._get_cache_folder().parent.exists()
