"""The native code is compiled if the machine can, and is optional."""

import subprocess

import pytest

import bootstrap


@pytest.fixture
def environment(tmp_path):
    path = tmp_path / "venv"
    path.mkdir()
    return path


def test_missing_compiler_is_reported_once_and_setup_continues(monkeypatch, capsys, environment):
    commands: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "_run", commands.append)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: False)

    bootstrap.prepare_native_code(environment)
    bootstrap.prepare_native_code(environment)

    # A build from other sources is replaced.
    assert [command[-1] for command in commands] == ["qos-oracle-native"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("native code not installed (no C compiler")


def test_native_code_that_fails_to_compile_falls_back_to_python(monkeypatch, capsys, environment):
    def refuse(command):
        if "./native" in command:
            raise subprocess.CalledProcessError(1, command, "error: __int128")

    monkeypatch.setattr(bootstrap, "_run", refuse)
    monkeypatch.setattr(bootstrap, "_can_compile", lambda: True)

    bootstrap.prepare_native_code(environment)

    assert "native code not installed (compilation failed)" in capsys.readouterr().err


def test_native_code_is_recompiled_after_source_changes(monkeypatch, tmp_path, environment):
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


def test_interrupted_native_compilation_is_repeated(monkeypatch, tmp_path, environment):
    """Even if the sources are again those of the last finished compilation."""
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
