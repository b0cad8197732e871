"""A lock file installs the same packages forever, with the oldest and the newest supported pip.

The index of these tests also has a newer version of every package, as a real index will.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import bootstrap
from tests.house.set_up import Index, Wheel, make_checkout, serve_index, sha256, use_index

pytestmark = pytest.mark.slow

# The pip of Ubuntu 22.04's Python 3.11; Debian 12 has 23.0.1.
OLDEST = ("22.0.2", "682eabc4716bfce606aca8dab488e9c7b58b0737e9001004eb858cdafcd8dbdd")
NEWEST = (bootstrap.PIP_VERSION, bootstrap.PIP_SHA256)

LIBRARY = Wheel("library", "1.0", extras=["toml"])
CALLER = Wheel("caller", "1.0", requires=["library[toml]>=1.0"])
PUBLISHED_LATER = (
    Wheel("library", "1.1", extras=["toml"]),
    Wheel("caller", "1.1", requires=["library[toml]>=1.1", "unheard_of"]),
    Wheel("unheard_of", "1.0"),
)


def pip_wheel(version, digest, folder):
    """Return the file of a version of pip, by its hash.

    The file comes from the index that this machine's pip uses.
    """
    lock = folder / "pip.txt"
    lock.write_text(f"pip=={version} --hash=sha256:{digest}\n", "utf-8")
    options = ("--quiet", "--no-deps", "--require-hashes", "--dest", folder, "-r", lock)
    subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True)
    (wheel,) = folder.glob("pip-*.whl")
    return wheel


@pytest.fixture
def index(tmp_path, monkeypatch, pip):
    version, digest = pip
    wheel = pip_wheel(version, digest, tmp_path)
    index = Index({wheel.name: wheel.read_bytes()})
    index.add(LIBRARY, CALLER, *PUBLISHED_LATER)
    make_checkout(tmp_path / "checkout", monkeypatch, {"check": LIBRARY.pin + CALLER.pin})
    monkeypatch.setattr(bootstrap, "PIP_WHEEL", wheel.name)
    monkeypatch.setattr(bootstrap, "PIP_SHA256", sha256(wheel.read_bytes()))
    method_names = ("_create_with_venv", "_create_with_virtualenv", "_create_with_system_pip")
    for method_name in method_names:
        monkeypatch.setattr(bootstrap, method_name, without_pip)
    with serve_index(index):
        use_index(index, monkeypatch)
        yield index


def without_pip(_):
    raise subprocess.CalledProcessError(1, ["venv"], "no pip")


def list_installed_packages(checkout):
    python = checkout / ".venv/bin/python"
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "freeze"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in listed.stdout.splitlines() if not line.startswith("setuptools")}


def assert_lock_is_installed(tmp_path, version):
    assert bootstrap.main(["check"]) == 0
    assert list_installed_packages(tmp_path / "checkout") == {
        "caller==1.0",
        "hello==1.0",
        "library==1.0",
        f"pip=={version}",
    }


@pytest.mark.parametrize("pip", [OLDEST], ids=["oldest"])
@pytest.mark.usefixtures("index")
def test_oldest_pip_installs_the_lock_despite_later_releases(tmp_path, pip):
    assert_lock_is_installed(tmp_path, pip[0])


@pytest.mark.nightly
@pytest.mark.parametrize("pip", [NEWEST], ids=["newest"])
def test_newest_pip_installs_the_lock_despite_later_releases(tmp_path, pip, index):
    assert_lock_is_installed(tmp_path, pip[0])
    # The resolver was not called, because every requirement is pinned.
    assert not [path for path in index.paths if "unheard" in path]


@pytest.mark.nightly
@pytest.mark.parametrize("pip", [NEWEST], ids=["newest"])
@pytest.mark.usefixtures("index", "pip")
def test_lock_that_lacks_a_requirement_keeps_the_old_environment(tmp_path, capsys):
    assert bootstrap.main(["check"]) == 0
    checkout = tmp_path / "checkout"
    before = list_installed_packages(checkout)

    (checkout / "constraints/check.txt").write_text(CALLER.pin, "utf-8")
    assert bootstrap.main(["check"]) == 1

    assert "caller 1.0 requires library, which is not installed" in capsys.readouterr().err
    assert list_installed_packages(checkout) == before


@pytest.mark.nightly
@pytest.mark.parametrize("pip", [NEWEST], ids=["newest"])
@pytest.mark.usefixtures("pip")
def test_version_missing_from_the_index_keeps_the_old_environment(tmp_path, index):
    assert bootstrap.main(["check"]) == 0
    checkout = tmp_path / "checkout"
    before = list_installed_packages(checkout)

    withdrawn = Wheel("caller", "0.9")
    (checkout / "constraints/check.txt").write_text(LIBRARY.pin + withdrawn.pin, "utf-8")
    assert bootstrap.main(["check"]) == 1

    assert index.paths
    assert list_installed_packages(checkout) == before
    assert Path(checkout / ".venv").resolve().exists()
