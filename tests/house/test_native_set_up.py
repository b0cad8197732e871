"""The native code is compiled where the machine can, and nobody has to have it."""

import subprocess

import pytest

import bootstrap


@pytest.fixture
def environment(tmp_path):
    path = tmp_path / "venv"
    path.mkdir()
    return path


def test_without_a_compiler_the_set_up_says_so_once_and_goes_on(monkeypatch, capsys, environment):
    commands: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_run", commands.append)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: False)

    bootstrap.prepare_native_code(environment)
    bootstrap.prepare_native_code(environment)

    # One that was compiled from other sources does not stay.
    assert [command[-1] for command in commands] == ["qos-oracle-native"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no native code, for want of a C compiler")


def test_native_code_that_does_not_compile_leaves_the_python_code(
    monkeypatch, capsys, environment
):
    def refuse(command):
        if "./native" in command:
            raise subprocess.CalledProcessError(1, command, "error: __int128")

    monkeypatch.setattr(bootstrap, "_run", refuse)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: True)

    bootstrap.prepare_native_code(environment)

    assert "no native code, for the compiler refuses it" in capsys.readouterr().err


def test_native_code_is_compiled_again_where_its_sources_changed(
    monkeypatch, tmp_path, environment
):
    commands: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_run", commands.append)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: True)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    (tmp_path / "native").mkdir()
    source = tmp_path / "native" / "module.c"

    for text in ("one", "one", "other"):
        source.write_text(text, "utf-8")
        bootstrap.prepare_native_code(environment)

    assert [command[-1] for command in commands] == ["./native"] * 2


def test_native_code_that_was_cut_short_is_compiled_again(monkeypatch, tmp_path, environment):
    """Also where the sources are again those of the last compilation that was finished."""
    commands: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: True)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    (tmp_path / "native").mkdir()
    source = tmp_path / "native" / "module.c"

    def cut_short(_):
        raise KeyboardInterrupt

    source.write_text("one", "utf-8")
    monkeypatch.setattr(bootstrap, "_run", commands.append)
    bootstrap.prepare_native_code(environment)
    source.write_text("other", "utf-8")
    monkeypatch.setattr(bootstrap, "_run", cut_short)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.prepare_native_code(environment)
    source.write_text("one", "utf-8")
    monkeypatch.setattr(bootstrap, "_run", commands.append)
    bootstrap.prepare_native_code(environment)

    assert len(commands) == 2
