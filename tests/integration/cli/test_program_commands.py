"""The commands that qos-oracle prints work when they are pasted into a shell."""

import os
import shlex
import subprocess
import sys

import pytest

from oracle.resources import format_install_command, format_program_command


def program(folder):
    path = folder / "bin" / "qos-oracle"
    path.parent.mkdir(parents=True)
    path.write_text('#!/bin/sh\necho "$# $1 $2"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("folder", ["checkout", "a checkout"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_program_outside_path_is_printed_with_its_full_path(
    monkeypatch, tmp_path, folder, is_relative
):
    path = program(tmp_path / folder)
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(sys, "argv", ["./qos-oracle" if is_relative else str(path), "demo"])

    line = format_program_command("explain", "0x12")

    # From any other folder.
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd="/", capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 explain 0x12\n"


def test_program_on_path_is_printed_by_name(monkeypatch, tmp_path):
    path = program(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", os.pathsep.join([str(path.parent), os.environ["PATH"]]))

    assert format_program_command("explain", "0x12") == "qos-oracle explain 0x12"


def test_other_program_of_same_name_on_path_is_not_used(monkeypatch, tmp_path):
    path = program(tmp_path / "checkout")
    other_program = program(tmp_path / "other")
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", os.pathsep.join([str(other_program.parent), os.environ["PATH"]]))

    assert format_program_command("explain") == f"{path} explain"


def test_command_shows_python_m_when_run_as_module(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/oracle/__main__.py"])

    assert format_program_command("--version") == f"{sys.executable} -m oracle --version"


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("kms", ["boto3"]),
        ("dask", ["distributed>=2026.1"]),
        ("notify", ["apprise>=1.9"]),
        ("parquet", ["pyarrow>=21"]),
        (
            "otel",
            ["opentelemetry-exporter-otlp-proto-http>=1.45", "opentelemetry-sdk>=1.45"],
        ),
    ],
)
def test_install_command_of_extra_lists_its_packages(extra, packages):
    assert shlex.split(format_install_command(extra)) == [
        *(sys.executable, "-m", "pip", "install"),
        *packages,
    ]
