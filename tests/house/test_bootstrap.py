"""How ./demo and ./check make their environment on machines that lack something."""

import hashlib
import importlib
import importlib.util
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError

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
    (bootstrap.BIN / "pip").write_text(f"#!{bootstrap.PYTHON}\n")


def no_pip_here(monkeypatch):
    """A Debian with python3 alone."""
    for way in ("_by_venv", "_by_virtualenv", "_by_pip_of_the_machine"):
        monkeypatch.setattr(bootstrap, way, without_ensurepip)


@contextmanager
def an_index(wheel: bytes, password: str = "") -> Iterator[str]:
    """A package index as pip's settings name it, its password in the address if it has one."""
    wanted = "Basic YWRhOnNlY3JldA=="  # ada:secret

    class Index(BaseHTTPRequestHandler):
        def do_GET(self):
            if password and self.headers["Authorization"] != wanted:
                self.send_error(401)
                return
            self.send_response(200)
            self.end_headers()
            link = f'<a href="../../files/{bootstrap.PIP_WHEEL}#sha256=0">pip</a>'
            self.wfile.write(wheel if self.path.endswith(".whl") else link.encode())

        def log_message(self, *_):
            """Say nothing in the middle of the tests' own lines."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    try:
        user = f"ada:{password}@" if password else ""
        yield f"http://{user}127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        server.server_close()


def test_another_way_is_tried_where_ensurepip_is_missing(monkeypatch):
    monkeypatch.setattr(bootstrap, "_by_venv", without_ensurepip)
    monkeypatch.setattr(bootstrap, "_by_virtualenv", with_this_python)

    bootstrap._environment()

    assert bootstrap.PYTHON.exists()


def test_where_no_way_works_the_one_line_that_helps_is_said(monkeypatch):
    no_pip_here(monkeypatch)
    with an_index(b"something else") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)

        with pytest.raises(SystemExit, match="apt-get install --yes python3-venv"):
            bootstrap._environment()

    assert not bootstrap.VENV.exists()


def test_without_network_the_first_run_says_so_and_leaves_nothing(monkeypatch):
    no_pip_here(monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there

    with pytest.raises(SystemExit, match="the first run needs the network"):
        bootstrap._environment()

    assert not bootstrap.VENV.exists()


def test_a_wheel_that_is_not_the_known_one_is_refused(monkeypatch):
    with an_index(b"something else") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)

        with pytest.raises(OSError, match=r"of 127\.0\.0\.1 is not the one that we know"):
            bootstrap._pip_wheel()


def test_the_password_of_an_index_is_used_and_never_shown(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "PIP_SHA256", hashlib.sha256(b"a wheel").hexdigest())
    with an_index(b"a wheel", "secret") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)

        assert bootstrap._pip_wheel() == b"a wheel"

        monkeypatch.setenv("PIP_INDEX_URL", address.replace("secret", "s3cret"))
        with pytest.raises(HTTPError, match="401") as refused:
            bootstrap._pip_wheel()
        refused.value.close()

    assert "s3cret" not in str(refused.value) + capsys.readouterr().err


def test_the_index_of_the_machine_is_read_from_where_pip_reads_it(monkeypatch, tmp_path):
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)

    assert bootstrap._pip_setting("index-url") == "https://mirror.example/simple"


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("ensurepip"), reason="no wheel of pip here")
def test_a_python_without_any_pip_gets_one_from_the_index(monkeypatch):
    bundled = importlib.import_module("ensurepip")
    wheel = next((Path(str(bundled.__file__)).parent / "_bundled").glob("pip-*.whl"))
    monkeypatch.setattr(bootstrap, "PIP_WHEEL", wheel.name)
    monkeypatch.setattr(bootstrap, "PIP_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    no_pip_here(monkeypatch)
    with an_index(wheel.read_bytes()) as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)

        bootstrap._environment()

    assert bootstrap._has_pip()


def test_a_failed_command_is_shown_with_its_last_lines(monkeypatch, capsys):
    def fail():
        raise subprocess.CalledProcessError(1, ["pip", "install"], "first\nno such package")

    monkeypatch.setattr(bootstrap, "_environment", fail)

    assert bootstrap.main("check") == 1
    assert "this failed: pip install\nfirst\nno such package" in capsys.readouterr().err


OF_PIP = """
WARNING: Retrying (Retry(total=0)) after connection broken by 'NameResolutionError("HTTPSConnect\
ion(host='pypi.org', port=443): Failed to resolve 'pypi.org'")': /simple/hatchling/
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io
"""
OF_NPM = """
npm error code EAI_AGAIN
npm error request to https://registry.npmjs.org/solc failed, reason: getaddrinfo EAI_AGAIN \
registry.npmjs.org
npm error A complete log of this run can be found in: /home/ada/.npm/_logs/debug-0.log
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (OF_PIP, "Failed to resolve 'pypi.org'\")): the"),
        (OF_NPM, "(getaddrinfo EAI_AGAIN registry.npmjs.org): the"),
    ],
    ids=["pip", "npm"],
)
def test_one_line_says_that_nobody_answered(monkeypatch, capsys, said, reason):
    def fail():
        raise subprocess.CalledProcessError(1, ["install"], said)

    monkeypatch.setattr(bootstrap, "_environment", fail)

    assert bootstrap.main("demo") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
    assert "needs the network" in line


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
    for name, end in (("VENV", ""), ("BIN", "bin"), ("PYTHON", "bin/python")):
        monkeypatch.setattr(bootstrap, name, tmp_path / "moved" / end)

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

    assert bootstrap.main("demo") == 130
    assert capsys.readouterr().err == "interrupted: the next run finishes the set-up\n"


def test_a_checkout_that_may_not_be_written_to_gets_one_line(monkeypatch, capsys):
    def refused():
        raise PermissionError(13, "Permission denied", ".venv")

    monkeypatch.setattr(bootstrap, "_environment", refused)

    assert bootstrap.main("demo") == 1
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
