"""How ./demo and ./check make their environment on machines that lack something."""

import subprocess
import sys

import pytest

import bootstrap


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """An environment of this test's own; the checkout's is left alone."""
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / "venv")
    monkeypatch.setattr(bootstrap, "BIN", tmp_path / "venv" / "bin")
    monkeypatch.setattr(bootstrap, "PYTHON", tmp_path / "venv" / "bin" / "python")


def without_ensurepip():
    raise subprocess.CalledProcessError(1, ["venv"], "ensurepip is not available")


def with_this_python():
    """As good as an environment with pip in it."""
    bootstrap.BIN.mkdir(parents=True)
    bootstrap.PYTHON.symlink_to(sys.executable)


def test_another_way_is_tried_where_ensurepip_is_missing(monkeypatch):
    monkeypatch.setattr(bootstrap, "_by_venv", without_ensurepip)
    monkeypatch.setattr(bootstrap, "_by_virtualenv", with_this_python)

    bootstrap._environment()

    assert bootstrap.PYTHON.exists()


def test_where_no_way_works_the_one_line_that_helps_is_said(monkeypatch):
    for way in ("_by_venv", "_by_virtualenv", "_by_pip_of_the_machine"):
        monkeypatch.setattr(bootstrap, way, without_ensurepip)

    with pytest.raises(SystemExit, match="apt-get install --yes python3-venv"):
        bootstrap._environment()

    assert not bootstrap.VENV.exists()


def test_a_failed_command_is_shown_with_its_last_lines(monkeypatch, capsys):
    def fail():
        raise subprocess.CalledProcessError(1, ["pip", "install"], "first\nno such package")

    monkeypatch.setattr(bootstrap, "_environment", fail)

    assert bootstrap.main("check") == 1
    assert "this failed: pip install\nfirst\nno such package" in capsys.readouterr().err


def test_what_was_installed_is_not_installed_again(monkeypatch):
    installed = []
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *what: installed.append(what))
    bootstrap.VENV.mkdir()

    bootstrap._packages("[dev]")
    bootstrap._packages("[dev]")
    bootstrap._packages("")

    assert len(installed) == 1


def test_other_pins_are_installed_anew(monkeypatch, tmp_path):
    installed = []
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *what: installed.append(what))
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    bootstrap.VENV.mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "constraints.txt").write_text("pytest==9.2.0")

    bootstrap._packages("[dev]")
    (tmp_path / "constraints.txt").write_text("pytest==9.2.1")
    bootstrap._packages("[dev]")

    assert len(installed) == 2
