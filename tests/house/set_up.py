"""Where bootstrap works in a test: in an environment of its own, never in the checkout's."""

import sys
from pathlib import Path

import pytest

import bootstrap


def set_up_in(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "VENV", venv)
    monkeypatch.setattr(bootstrap, "BIN", venv / "bin")
    monkeypatch.setattr(bootstrap, "PYTHON", venv / "bin" / "python")


def with_this_python():
    """As good as an environment with pip in it."""
    bootstrap.BIN.mkdir(parents=True)
    bootstrap.PYTHON.symlink_to(sys.executable)
    (bootstrap.BIN / "pip").write_text(f"#!{bootstrap.PYTHON}\n")
