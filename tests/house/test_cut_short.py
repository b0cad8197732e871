"""A set-up that is interrupted, killed, moved or cut off heals by itself at the next run."""

import shutil
import subprocess
import sys
import time
from functools import partial

import pytest

import bootstrap
from tests.house.set_up import set_up_in, with_this_python


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    set_up_in(tmp_path / "venv", monkeypatch)


def has_a_python():
    """Whether its pip answers as well takes a second to ask."""
    return bootstrap.PYTHON.exists()


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(bootstrap, "_has_pip", has_a_python)
    monkeypatch.setattr(bootstrap, "_by_venv", with_this_python)
    bootstrap._environment()


@pytest.mark.usefixtures("made")
def test_what_was_cut_short_is_made_anew(monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        bootstrap._pip_install("something")
    half = bootstrap.VENV / "half-a-package"
    half.write_text("")

    bootstrap._environment()

    assert not half.exists()
    assert bootstrap._is_whole()


@pytest.mark.usefixtures("made")
def test_an_install_that_found_no_network_spoils_nothing(monkeypatch):
    said = "Retrying after connection broken by 'NewConnectionError()': /simple/hatchling/"

    def without_network(*_):
        raise subprocess.CalledProcessError(1, ["pip"], said)

    monkeypatch.setattr(bootstrap, "_run", without_network)
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap._pip_install("something")

    assert bootstrap._is_whole()


@pytest.mark.usefixtures("made")
def test_an_environment_that_was_moved_is_made_anew(monkeypatch, tmp_path):
    bootstrap.VENV.rename(tmp_path / "moved")
    set_up_in(tmp_path / "moved", monkeypatch)

    assert bootstrap._has_pip()
    assert not bootstrap._is_whole()


def test_npm_that_was_cut_short_is_run_again(monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    for name in ("package.json", "package-lock.json"):
        (tmp_path / name).write_text("{}")
    bootstrap.VENV.mkdir()
    bootstrap._write_down("node", bootstrap._print_of("package.json", "package-lock.json"))

    def killed(*_):
        (tmp_path / "node_modules").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "which", lambda _: "npm")
    monkeypatch.setattr(bootstrap, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        bootstrap._node_modules()

    runs = []
    monkeypatch.setattr(bootstrap, "_run", lambda command, _: runs.append(command[:2]))
    bootstrap._node_modules()

    assert runs == [["npm", "ci"]]


def test_whoever_interrupts_is_told_that_the_next_run_goes_on(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "_environment", interrupted)

    assert bootstrap.main(["demo"]) == 130
    assert capsys.readouterr().err == "interrupted: the next run finishes the set-up\n"


def test_a_checkout_that_may_not_be_written_to_gets_one_line(monkeypatch, capsys):
    def refused():
        raise PermissionError(13, "Permission denied", ".venv")

    monkeypatch.setattr(bootstrap, "_environment", refused)

    assert bootstrap.main(["demo"]) == 1
    assert capsys.readouterr().err.endswith("Permission denied: '.venv'\n")


FIRST = """
import sys, bootstrap
with bootstrap._alone():
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(); sys.stdin.readline()"
    bootstrap._run([sys.executable, "-c", code, sys.argv[1]])
"""
SECOND = """
import bootstrap
with bootstrap._alone():
    print("at work")
"""


@pytest.mark.slow
def test_a_second_set_up_waits_for_what_a_killed_one_left_at_work(tmp_path):
    begun = tmp_path / "begun"
    started = partial(subprocess.Popen, cwd=bootstrap.ROOT, text=True, stdin=subprocess.PIPE)
    with started([sys.executable, "-c", FIRST, str(begun)]) as first:
        wait_until(begun.exists)
        first.kill()
        first.wait()
        # What it started has its end of the pipe, and waits for a line.
        outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with started([sys.executable, "-c", SECOND], **outputs) as second:
            assert second.stderr
            assert first.stdin
            assert "waiting for its end" in second.stderr.readline()
            assert second.poll() is None
            first.stdin.write("\n")
            first.stdin.flush()
            assert second.communicate()[0] == "at work\n"


def wait_until(condition, seconds=120.0):
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest, "it did not happen"
        time.sleep(0.01)
