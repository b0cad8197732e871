"""The native code is compiled where the machine can, and nobody has to have it."""

import subprocess

import pytest

import bootstrap
from tests.house.set_up import set_up_in


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    set_up_in(tmp_path / "venv", monkeypatch)


def test_without_a_compiler_the_set_up_says_so_once_and_goes_on(monkeypatch, capsys):
    ran: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_run", ran.append)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: False)
    bootstrap.VENV.mkdir()

    bootstrap._native_code()
    bootstrap._native_code()

    # One that was compiled from other sources does not stay.
    assert [command[-1] for command in ran] == ["qos-oracle-native"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no native code, for want of a C compiler")


def test_native_code_that_does_not_compile_leaves_the_python_code(monkeypatch, capsys):
    def refuse(command):
        if "./native" in command:
            raise subprocess.CalledProcessError(1, command, "error: __int128")

    monkeypatch.setattr(bootstrap, "_run", refuse)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: True)
    bootstrap.VENV.mkdir()

    bootstrap._native_code()

    assert "no native code, for the compiler refuses it" in capsys.readouterr().err


def test_native_code_is_compiled_again_where_its_sources_changed(monkeypatch, tmp_path):
    ran: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_run", ran.append)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: True)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    bootstrap.VENV.mkdir()
    (tmp_path / "native").mkdir()
    source = tmp_path / "native" / "module.c"

    for text in ("one", "one", "other"):
        source.write_text(text, "utf-8")
        bootstrap._native_code()

    assert [command[-1] for command in ran] == ["./native"] * 2
