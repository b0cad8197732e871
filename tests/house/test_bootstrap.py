"""How ./demo and ./check create their environment on machines that lack something."""

import importlib
import importlib.util
import os
import subprocess
from pathlib import Path
from urllib.error import HTTPError

import pytest

import bootstrap
from tests.house.set_up import (
    Index,
    Wheel,
    link_this_python,
    make_checkout,
    serve_index,
    sha256,
    use_index,
)


@pytest.fixture(autouse=True)
def checkout(monkeypatch, tmp_path):
    make_checkout(tmp_path / "checkout", monkeypatch)
    return tmp_path / "checkout"


@pytest.fixture
def environment(checkout):
    return checkout / ".venvs/some"


def without_ensurepip(_):
    raise subprocess.CalledProcessError(1, ["venv"], "ensurepip is not available")


def remove_pip(monkeypatch):
    """Simulate a Debian with only python3."""
    for method_name in ("_create_with_venv", "_create_with_virtualenv", "_create_with_system_pip"):
        monkeypatch.setattr(bootstrap, method_name, without_ensurepip)


def fake_wheel(content=b"a wheel", password=""):
    return Index({bootstrap.PIP_WHEEL: content}, password=password)


def test_missing_ensurepip_falls_back_to_virtualenv(monkeypatch, environment):
    monkeypatch.setattr(bootstrap, "_create_with_venv", without_ensurepip)
    monkeypatch.setattr(bootstrap, "_create_with_virtualenv", link_this_python)

    bootstrap._create_environment(environment)

    assert bootstrap.get_python(environment).exists()


def test_failure_of_all_methods_prints_an_install_hint(monkeypatch, capsys, checkout):
    remove_pip(monkeypatch)
    with serve_index(fake_wheel(b"something else")) as index:
        use_index(index, monkeypatch)
        assert bootstrap.main(["demo"]) == 1

    assert "apt-get install --yes python3-venv" in capsys.readouterr().err
    assert [*(checkout / ".venvs").iterdir()] == []


def test_missing_network_is_reported_and_leaves_nothing(monkeypatch, capsys, checkout):
    remove_pip(monkeypatch)
    use_index(Index(address="http://127.0.0.1:9/simple"), monkeypatch)  # no server there

    assert bootstrap.main(["demo"]) == 1

    assert "the setup needs network access" in capsys.readouterr().err
    assert [*(checkout / ".venvs").iterdir()] == []
    assert not (checkout / ".venv").exists()


def test_unknown_wheel_hash_is_rejected(monkeypatch):
    with serve_index(fake_wheel(b"something else")) as index:
        use_index(index, monkeypatch)

        with pytest.raises(OSError, match=r"of 127\.0\.0\.1 does not have the expected hash"):
            bootstrap._fetch_pip_wheel()


def test_index_password_is_used_and_never_shown(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "PIP_SHA256", sha256(b"a wheel"))
    with serve_index(fake_wheel(b"a wheel", "secret")) as index:
        use_index(index, monkeypatch)

        assert bootstrap._fetch_pip_wheel() == b"a wheel"

        monkeypatch.setenv("PIP_INDEX_URL", index.address.replace("secret", "s3cret"))
        with pytest.raises(HTTPError, match="401") as refused:
            bootstrap._fetch_pip_wheel()
        refused.value.close()

    assert "s3cret" not in str(refused.value) + capsys.readouterr().err


def test_package_index_is_read_from_pip_configuration(monkeypatch, tmp_path):
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)

    assert bootstrap.read_pip_setting("index-url") == "https://mirror.example/simple"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("ensurepip"), reason="no wheel of pip here")
def test_python_without_pip_gets_pip_from_the_index(monkeypatch, environment):
    bundled = importlib.import_module("ensurepip")
    wheel = next((Path(str(bundled.__file__)).parent / "_bundled").glob("pip-*.whl"))
    monkeypatch.setattr(bootstrap, "PIP_WHEEL", wheel.name)
    monkeypatch.setattr(bootstrap, "PIP_SHA256", sha256(wheel.read_bytes()))
    remove_pip(monkeypatch)
    with serve_index(fake_wheel(wheel.read_bytes())) as index:
        use_index(index, monkeypatch)

        bootstrap._create_environment(environment)

    bootstrap._run([bootstrap.get_python(environment), "-c", "import pip"])


def test_failed_command_is_shown_with_its_last_lines(monkeypatch, capsys):
    def fail(_):
        raise subprocess.CalledProcessError(1, ["pip", "install"], "first\nno such package")

    monkeypatch.setattr(bootstrap, "prepare_environment", fail)

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
    ("output", "reason"),
    [
        (OF_PIP, "Failed to resolve 'packages.example'\")); the"),
        (OF_NPM, "(getaddrinfo EAI_AGAIN registry.example); the"),
    ],
    ids=["pip", "npm"],
)
def test_network_failure_is_reported_in_one_line(monkeypatch, capsys, output, reason):
    def fail(_):
        raise subprocess.CalledProcessError(1, ["install"], output)

    monkeypatch.setattr(bootstrap, "prepare_environment", fail)

    assert bootstrap.main(["demo"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
    assert "needs network access" in line


def commands_run(monkeypatch):
    """Record the commands by which bootstrap would install packages, and run none of them."""
    commands: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_create_with_venv", link_this_python)
    monkeypatch.setattr(bootstrap, "_run", commands.append)
    return commands


def test_installed_environment_is_not_installed_again(monkeypatch, checkout):
    commands = commands_run(monkeypatch)

    environment = bootstrap.prepare_environment("check")
    once = len(commands)
    bootstrap.prepare_environment("check")
    # The tools of `check` include everything that `demo` needs.
    bootstrap.prepare_environment("demo")

    assert len(commands) == once
    assert (checkout / ".venv").resolve() == environment


@pytest.mark.parametrize("changed", ["constraints/check.txt", "pyproject.toml"])
def test_changed_pins_are_installed_into_a_new_environment(monkeypatch, checkout, changed):
    commands = commands_run(monkeypatch)
    first = bootstrap.prepare_environment("check")
    once = len(commands)

    with (checkout / changed).open("a") as file:
        file.write("# text\n" if changed.startswith("constraints") else 'license = "MIT"\n')
    second = bootstrap.prepare_environment("check")

    assert len(commands) == 2 * once
    assert first != second == (checkout / ".venv").resolve()


def test_changed_settings_of_other_tools_do_not_trigger_an_install(monkeypatch, checkout):
    commands = commands_run(monkeypatch)
    bootstrap.prepare_environment("check")
    once = len(commands)

    with (checkout / "pyproject.toml").open("a") as file:
        file.write("[tool.ruff]\nline-length = 99\n")
    bootstrap.prepare_environment("check")

    assert len(commands) == once


@pytest.mark.parametrize("has_npm", [True, False])
@pytest.mark.parametrize("purpose", ["demo", "check", "docs", "audit"])
def test_only_wheels_with_pinned_hashes_are_fetched(monkeypatch, purpose, has_npm):
    commands = commands_run(monkeypatch)
    monkeypatch.setattr(bootstrap, "_find_machine_npm", lambda: "npm" if has_npm else None)

    bootstrap.prepare_environment(purpose)

    installs = [command[len(bootstrap.PIP_INSTALL) + 1 :] for command in commands[:-1]]
    of_checkout = ["--no-deps", "--no-build-isolation", "--editable", "."]
    (locks, *other_installs) = installs
    assert locks[:4] == ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    # The checkout has no hash; its own build has no dependencies.
    assert other_installs == ([of_checkout] if purpose in {"demo", "check"} else [])
    needs_npm = bootstrap.PURPOSES[purpose].includes_checkout and not has_npm
    assert ("constraints/node.txt" in locks) == needs_npm


def test_npm_of_the_virtual_environment_is_not_used_as_system_npm(monkeypatch, checkout):
    """`make` puts .venv/bin on the PATH, which must not change what is installed."""
    npm = checkout / ".venvs/some/bin/npm"
    npm.parent.mkdir(parents=True)
    npm.write_text("#!/bin/sh\n")
    npm.chmod(0o755)
    (checkout / ".venv").symlink_to(".venvs/some")
    monkeypatch.setenv("PATH", os.pathsep.join([str(checkout / ".venv/bin"), str(npm.parent)]))

    assert bootstrap._find_machine_npm() is None


@pytest.mark.slow
def test_wheel_with_different_bytes_is_not_installed(monkeypatch, checkout, environment):
    """An index returns other bytes for a pinned version, however pip was configured to use it."""
    wheel = Wheel("some_package", "1.0")
    index = Index()
    index.add(wheel)
    pins = checkout / "constraints/docs.txt"
    bootstrap._create_with_venv(environment)
    with serve_index(index):
        use_index(index, monkeypatch)

        pins.write_text(f"some-package==1.0 --hash=sha256:{64 * '0'}\n", "utf-8")
        with pytest.raises(subprocess.CalledProcessError) as refused:
            bootstrap._install_packages("docs", environment)
        assert "DO NOT MATCH THE HASHES" in refused.value.stdout

        pins.write_text(wheel.pin, "utf-8")
        bootstrap._install_packages("docs", environment)
    assert [*environment.glob("lib/python*/site-packages/some_package.py")]


@pytest.mark.parametrize("arguments", [[], ["test"], ["demo", "check"]])
def test_missing_purpose_argument_is_rejected_with_the_choices(arguments, capsys):
    assert bootstrap.main(arguments) == 2
    assert capsys.readouterr().err == (
        "bootstrap.py: name one purpose; expected demo, check, docs, audit\n"
    )
