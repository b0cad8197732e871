"""How ./demo and ./check make their environment on machines that lack something."""

import hashlib
import importlib
import importlib.util
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from zipfile import ZipFile

import pytest

import bootstrap
from tests.house.set_up import set_up_in, with_this_python


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    set_up_in(tmp_path / "venv", monkeypatch)


def without_ensurepip():
    raise subprocess.CalledProcessError(1, ["venv"], "ensurepip is not available")


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

    with pytest.raises(SystemExit, match="the set-up needs the network"):
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

    assert bootstrap.pip_setting("index-url") == "https://mirror.example/simple"


@pytest.mark.nightly
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

    assert bootstrap.main(["check"]) == 1
    assert "this failed: pip install\nfirst\nno such package" in capsys.readouterr().err


OF_PIP = """
WARNING: Retrying (Retry(total=0)) after connection broken by 'NameResolutionError("HTTPSConnect\
ion(host='packages.example', port=443): Failed to resolve 'packages.example'")': /simple/hatchling/
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io
"""
OF_NPM = """
npm error code EAI_AGAIN
npm error request to https://registry.example/solc failed, reason: getaddrinfo EAI_AGAIN \
registry.example
npm error A complete log of this run can be found in: /x/.npm/_logs/debug-0.log
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (OF_PIP, "Failed to resolve 'packages.example'\")): the"),
        (OF_NPM, "(getaddrinfo EAI_AGAIN registry.example): the"),
    ],
    ids=["pip", "npm"],
)
def test_one_line_says_that_nobody_answered(monkeypatch, capsys, said, reason):
    def fail():
        raise subprocess.CalledProcessError(1, ["install"], said)

    monkeypatch.setattr(bootstrap, "_environment", fail)

    assert bootstrap.main(["demo"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
    assert "needs the network" in line


def test_what_was_installed_is_not_installed_again(monkeypatch):
    installed = []
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *what: installed.append(what))
    bootstrap.VENV.mkdir()

    bootstrap._packages("check")
    once = len(installed)
    bootstrap._packages("check")
    bootstrap._packages("demo")

    assert len(installed) == once


def test_other_pins_are_installed_anew(monkeypatch, tmp_path):
    installed = []
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *what: installed.append(what))
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    bootstrap.VENV.mkdir()
    (tmp_path / "constraints").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "constraints/check.txt").write_text("pytest==9.2.0")

    bootstrap._packages("check")
    once = len(installed)
    (tmp_path / "constraints/check.txt").write_text("pytest==9.2.1")
    bootstrap._packages("check")

    assert len(installed) == 2 * once


@pytest.mark.parametrize("purpose", ["demo", "check"])
def test_nothing_is_fetched_but_wheels_that_are_known_by_their_hash(monkeypatch, purpose):
    installed = []
    monkeypatch.setattr(bootstrap, "_pip_install", lambda *what: installed.append(what))
    bootstrap.VENV.mkdir()

    bootstrap._packages(purpose)

    fetching = [what for what in installed if "--no-deps" not in what]
    assert [what for what in fetching if "--require-hashes" not in what] == []
    # The checkout has no hash; its own build brings nothing along.
    (checkout,) = [what for what in installed if what not in fetching]
    assert checkout == ("--no-deps", "--no-build-isolation", "--editable", ".")


@pytest.mark.slow
def test_a_wheel_with_other_bytes_is_not_installed(monkeypatch, tmp_path):
    """An index that gives other code under a known version, however pip was told of it."""
    wheel = tmp_path / "index" / "some_package-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with ZipFile(wheel, "w") as archive:
        archive.writestr("some_package/__init__.py", "")
        metadata = "Metadata-Version: 2.1\nName: some-package\nVersion: 1.0\n"
        archive.writestr("some_package-1.0.dist-info/METADATA", metadata)
        archive.writestr("some_package-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("some_package-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    (tmp_path / "constraints").mkdir()
    pins = tmp_path / "constraints" / "check.txt"
    bootstrap._by_venv()

    pins.write_text(f"some-package==1.0 --hash=sha256:{64 * '0'}\n", "utf-8")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        bootstrap._pip_install(*bootstrap.by_hash("check"))
    assert "DO NOT MATCH THE HASHES" in refused.value.stdout

    known = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pins.write_text(f"some-package==1.0 --hash=sha256:{known}\n", "utf-8")
    bootstrap._pip_install(*bootstrap.by_hash("check"))
    assert list(bootstrap.VENV.glob("lib/python*/site-packages/some_package"))


@pytest.mark.parametrize("arguments", [[], ["test"], ["demo", "check"]])
def test_whoever_names_nothing_to_prepare_for_is_told_what_there_is(arguments, capsys):
    assert bootstrap.main(arguments) == 2
    assert capsys.readouterr().err == (
        "name what to prepare for: bootstrap.py demo, or bootstrap.py check\n"
    )
