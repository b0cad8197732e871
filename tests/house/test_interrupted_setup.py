"""A set-up that fails, is interrupted, killed or moved leaves the old environment unchanged."""

import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import bootstrap
from tests.house.set_up import link_this_python, make_checkout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def checkout(monkeypatch, tmp_path):
    make_checkout(tmp_path / "checkout", monkeypatch)
    monkeypatch.setattr(bootstrap, "_create_with_venv", link_this_python)
    monkeypatch.setattr(bootstrap, "_find_machine_npm", lambda: "npm")
    return tmp_path / "checkout"


def install_nothing(*_):
    """Do nothing, in place of a command that succeeds at once."""


def write_half_a_package(command, *_):
    if "install" in command:
        (Path(command[0]).parent / "half-a-package").touch()


def change_pins(checkout):
    (checkout / "constraints/check.txt").write_text("# other pins\n", "utf-8")


def environments(checkout):
    return {path.name for path in (checkout / ".venvs").iterdir()}


FAILURES = {
    "interrupted": KeyboardInterrupt(),
    "disk full": OSError(28, "No space left on device"),
    "pip failed": subprocess.CalledProcessError(1, ["pip"], "no such package"),
    "no network": subprocess.CalledProcessError(
        1,
        ["pip"],
        "Retrying after connection broken by 'NewConnectionError()': /simple/hatchling/",
    ),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("command", ["install", "--editable", "check"])
def test_failed_setup_keeps_the_working_environment(
    monkeypatch, checkout, capsys, failure, command
):
    monkeypatch.setattr(bootstrap, "_run", install_nothing)
    assert bootstrap.main(["check"]) == 0
    before = environments(checkout)
    target = (checkout / ".venv").readlink()

    def fail(line, *_):
        if command in line:
            write_half_a_package(line)
            raise failure

    change_pins(checkout)
    monkeypatch.setattr(bootstrap, "_run", fail)
    assert bootstrap.main(["check"]) in {1, 130}

    assert (environments(checkout), (checkout / ".venv").readlink()) == (before, target)
    assert bootstrap.get_python(checkout / ".venv").exists()
    assert isinstance(failure, KeyboardInterrupt) or (
        ".venv was not changed" in capsys.readouterr().err
    )


def test_environment_that_sigkill_left_half_built_is_recreated(monkeypatch, checkout):
    """SIGKILL allows no cleanup: the partial environment exists, and has no completion mark."""
    half = bootstrap.get_environment_path("check")
    link_this_python(half)
    (half / "half-a-package").touch()
    monkeypatch.setattr(bootstrap, "_run", install_nothing)

    assert bootstrap.prepare_environment("check") == half
    assert not (half / "half-a-package").exists()


def test_previous_environment_is_kept_for_running_processes(monkeypatch, checkout):
    monkeypatch.setattr(bootstrap, "_run", install_nothing)
    first = bootstrap.prepare_environment("demo")
    second = bootstrap.prepare_environment("check")
    assert environments(checkout) == {first.name, second.name}

    change_pins(checkout)
    third = bootstrap.prepare_environment("check")

    assert environments(checkout) == {second.name, third.name}
    assert (checkout / ".venv").resolve() == third


@pytest.mark.parametrize("purpose", ["docs", "audit"])
def test_environment_used_by_another_link_is_kept(monkeypatch, checkout, purpose):
    monkeypatch.setattr(bootstrap, "_run", install_nothing)
    environment_path = bootstrap.prepare_environment(purpose)
    bootstrap.prepare_environment("demo")
    bootstrap.prepare_environment("check")

    change_pins(checkout)
    bootstrap.prepare_environment("check")

    assert (checkout / bootstrap.PURPOSES[purpose].link).resolve() == environment_path
    assert environment_path.exists()


def test_environment_folder_of_an_earlier_version_becomes_a_link(monkeypatch, checkout):
    link_this_python(checkout / ".venv")
    monkeypatch.setattr(bootstrap, "_run", install_nothing)

    environment = bootstrap.prepare_environment("demo")

    assert (checkout / ".venv").is_symlink()
    assert (checkout / ".venv").resolve() == environment
    assert environments(checkout) == {environment.name}


def test_interrupted_switch_of_environments_is_completed(monkeypatch, checkout):
    monkeypatch.setattr(bootstrap, "_run", install_nothing)
    environment = bootstrap.prepare_environment("demo")
    (checkout / ".venv").rename(checkout / ".venv.new")

    assert bootstrap.prepare_environment("demo") == environment
    assert (checkout / ".venv").resolve() == environment


@pytest.mark.parametrize("move", [shutil.move, partial(shutil.copytree, symlinks=True)])
def test_moved_or_copied_checkout_gets_its_own_environment(monkeypatch, checkout, tmp_path, move):
    monkeypatch.setattr(bootstrap, "_run", install_nothing)
    first = bootstrap.prepare_environment("demo")
    move(checkout, tmp_path / "elsewhere")
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path / "elsewhere")

    second = bootstrap.prepare_environment("demo")

    assert second.name != first.name
    assert (tmp_path / "elsewhere/.venv").resolve() == second


@pytest.mark.slow
@pytest.mark.nightly
def test_installed_programs_run_after_a_switch_of_environments(monkeypatch, checkout):
    """Their first line names the folder in which they were installed, which is kept."""
    monkeypatch.undo()
    make_checkout(checkout.with_name("another checkout"), monkeypatch)
    checkout = checkout.with_name("another checkout")
    assert bootstrap.main(["demo"]) == 0
    assert bootstrap.main(["check"]) == 0
    shell = ". .venv/bin/activate && command -v hello && hello && python -m pip --version"
    for command in (["sh", "-c", shell], [".venv/bin/hello"]):
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
        assert "hello\n" in done.stdout
    assert (checkout / "node_modules").is_dir()


def test_interrupted_npm_install_keeps_previous_packages(monkeypatch, checkout):
    environment = checkout / ".venvs/some"
    commands = []

    def install(command, _, folder):
        commands.append(command[:2])
        (folder / "node_modules").mkdir()

    def cut_short(_, __, folder):
        (folder / "node_modules").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "_run", install)
    bootstrap.prepare_node_modules(environment)
    (checkout / "node_modules/anvil").touch()
    (checkout / "package-lock.json").write_text("{}", "utf-8")
    monkeypatch.setattr(bootstrap, "_run", cut_short)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.prepare_node_modules(environment)
    assert (checkout / "node_modules/anvil").exists()

    monkeypatch.setattr(bootstrap, "_run", install)
    for _ in range(2):
        bootstrap.prepare_node_modules(environment)

    assert commands == [["npm", "ci"]] * 2
    assert not (checkout / "node_modules/anvil").exists()
    assert environments(checkout) == set()


def test_interrupted_setup_suggests_running_the_command_again(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "prepare_environment", interrupt)

    assert bootstrap.main(["demo"]) == 130
    assert capsys.readouterr().err == "interrupted; run the command again\n"


def test_read_only_checkout_is_reported_in_one_line(monkeypatch, capsys):
    def refuse(_):
        raise PermissionError(13, "Permission denied", ".venv")

    monkeypatch.setattr(bootstrap, "prepare_environment", refuse)

    assert bootstrap.main(["demo"]) == 1
    assert capsys.readouterr().err.endswith("Permission denied: '.venv'\n")


FIRST = """
import sys, bootstrap
with bootstrap._lock_setup():
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(); sys.stdin.readline()"
    bootstrap._run([sys.executable, "-c", code, sys.argv[1]])
"""
SECOND = """
import bootstrap
with bootstrap._lock_setup():
    print("at work")
"""


@pytest.mark.slow
def test_setup_waits_for_processes_of_a_killed_setup(tmp_path):
    begun = tmp_path / "begun"
    started = partial(subprocess.Popen, cwd=ROOT, text=True, stdin=subprocess.PIPE)
    with started([sys.executable, "-c", FIRST, str(begun)]) as first:
        wait_until(begun.exists)
        first.kill()
        first.wait()
        # The child process inherited the pipe and waits for a line.
        outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with started([sys.executable, "-c", SECOND], **outputs) as second:
            assert second.stderr
            assert first.stdin
            assert "to finish" in second.stderr.readline()
            assert second.poll() is None
            first.stdin.write("\n")
            first.stdin.flush()
            assert second.communicate()[0] == "at work\n"


def wait_until(condition, seconds=120.0):
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest, "it did not happen"
        time.sleep(0.01)
