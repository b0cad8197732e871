"""The command line as a whole: help for all commands, and uniform errors."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from oracle.cli import main
from oracle.cli.main import build_app, run
from oracle.cli.options import confirm_action
from oracle.errors import FatalError, InputError, TransientError


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name."""
    if hasattr(command, "commands"):
        for part, inner in command.commands.items():
            yield from leaves(inner, f"{name} {part}".strip())
    else:
        yield name, command


COMMANDS = dict(leaves(get_command(build_app())))
# Commands with effects outside their own database.
CHANGING = {
    "halt clear",
    "init",
    "kickout clear",
    "outbox bump",
    "outbox cancel",
    "outbox hold",
    "outbox rebuild",
    "report release",
    "run",
    "migrate",
    "service init",
    "service restore",
    "service upgrade",
    "resync rewind",
    "resync rebuild",
    "resync backfill",
    "report push",
    "kickout accuse",
    "kickout execute",
    "contract deploy",
    "outbox release",
    "keys create",
}
# Commands with irreversible effects, which ask for confirmation.
COMMANDS_WITH_CONFIRMATION = {
    "report push",
    "kickout accuse",
    "kickout execute",
    "kickout clear",
    "contract deploy",
    "outbox cancel",
    "outbox rebuild",
    "service restore",
    "service upgrade",
}
# Commands whose output is not a report: streams, or long-running programs.
WITHOUT_JSON = {
    "init",
    "gateway",
    "mcp",
    "serve",
    "replay",
    "export",
    "kickout evidence",
    "outbox release",
}


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def options(name):
    return {option for parameter in COMMANDS[name].params for option in parameter.opts} | {
        option for parameter in COMMANDS[name].params for option in parameter.secondary_opts
    }


def test_all_expected_commands_exist():
    assert {"demo", "status", "nodes", "explain", "config check"} <= set(COMMANDS)
    assert set(COMMANDS) >= CHANGING


def test_help_shows_example_and_no_python_type_names(capsys):
    for name in COMMANDS:
        assert run([*name.split(), "--help"]) == 0, name
        help_text = capsys.readouterr().out
        assert f"qos-oracle {name}" in help_text.partition("Example: ")[2], name
        assert not re.search(r"<\w|\bPATH\b|INTEGER|FLOAT", help_text), name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_lists_commands(shell, capsys, monkeypatch):
    completion_instruction = {
        "bash": "complete_bash",
        "zsh": "complete_zsh",
        "fish": "complete_fish",
    }[shell]
    monkeypatch.setenv("_QOS_ORACLE_COMPLETE", completion_instruction)
    monkeypatch.setenv("COMP_WORDS", "qos-oracle expl")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "qos-oracle expl")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    with pytest.raises(SystemExit, match="0"):
        run([])
    assert "explain" in capsys.readouterr().out


def test_state_changing_commands_have_dry_run():
    for name in sorted(CHANGING):
        assert "--dry-run" in options(name), name


def test_only_irreversible_commands_require_confirmation():
    # `init` prompts for missing values.
    assert {name for name in COMMANDS if "--yes" in options(name)} - {
        "init"
    } == COMMANDS_WITH_CONFIRMATION


@pytest.mark.parametrize(
    ("yes", "dry_run", "is_done"), [(True, False, True), (True, True, False), (False, True, False)]
)
def test_yes_or_dry_run_option_replaces_confirmation(yes, dry_run, is_done):
    assert confirm_action("sending it", yes=yes, dry_run=dry_run) is is_done


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_command_does_nothing_after_declined_confirmation(monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    with pytest.raises(InputError, match="sending it: not confirmed, nothing was done; use --yes"):
        confirm_action("sending it", yes=False, dry_run=False)


def test_command_proceeds_after_accepted_confirmation(monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert confirm_action("sending it", yes=False, dry_run=False)


def test_printing_commands_have_json_option():
    for name in sorted(set(COMMANDS) - WITHOUT_JSON):
        assert "--json" in options(name), name


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (InputError("chain.id: is missing"), 2),
        (FatalError("a final block changed"), 1),
        (TransientError("no endpoint answers"), 1),
        (typer.Exit(3), 3),
        (OSError(errno.EACCES, "Permission denied", "evidence"), 1),
    ],
)
def test_failure_prints_one_line_and_exits_with_its_code(failure, code, monkeypatch, capsys):
    def fail() -> None:
        raise failure

    app = typer.Typer()
    app.command()(fail)
    monkeypatch.setattr(main, "build_app", lambda: app)

    assert run([]) == code
    stderr = capsys.readouterr().err
    if isinstance(failure, OSError):
        assert stderr == "qos-oracle: evidence: Permission denied\n"
    elif not isinstance(failure, typer.Exit):
        assert stderr == f"qos-oracle: {failure}\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_writing_output_to_a_full_disk_prints_one_line_error(tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text(
        '{"type":"node_joined","block":1,"log":0,"time":1,"node":"0x' + "a" * 40 + '"}\n'
    )
    command = [sys.executable, "-m", "oracle", "replay", str(events)]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr == "qos-oracle: output: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--version", "rules list --json"])
def test_closed_output_pipe_prints_nothing(arguments):
    """As with `head` after its last line: the pipe exists, but has no reader."""
    read, written = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "oracle", *arguments.split()]
    ended = subprocess.run(command, stdout=written, stderr=subprocess.PIPE, check=False)
    os.close(written)
    assert (ended.returncode, ended.stderr) == (main.BROKEN_PIPE_EXIT_CODE, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "returncode", "stdout", "stderr"),
    [
        (0, 2, "", "qos-oracle: stdin: the file contains no events\n"),
        (1, 2, "", "qos-oracle: stdin: the file contains no events\n"),
        (2, 2, "", ""),
    ],
)
def test_closed_standard_stream_prints_no_traceback(closed, returncode, stdout, stderr):
    ended = _run_with_closed_file("replay -", closed)
    assert (ended.returncode, ended.stdout, ended.stderr) == (returncode, stdout, stderr)


@pytest.mark.slow
def test_closed_stdout_is_reported_as_an_output_error():
    ended = _run_with_closed_file("--version", 1)
    assert ended.returncode == 1
    assert ended.stderr == "qos-oracle: output: Bad file descriptor\n"


def _run_with_closed_file(arguments: str, closed: int) -> subprocess.CompletedProcess[str]:
    """Run a command with an empty stdin and one closed standard file."""
    program = (
        "import os, sys; os.close(int(sys.argv[1])); "
        "os.execv(sys.executable, [sys.executable, '-m', 'oracle', *sys.argv[2:]])"
    )
    command = [sys.executable, "-c", program, str(closed), *arguments.split()]
    return subprocess.run(command, input="", capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_deleted_working_directory_prints_one_line_error(tmp_path):
    program = (
        "import os, sys; os.rmdir(os.getcwd()); "
        "os.execv(sys.executable, [sys.executable, '-P', '-m', 'oracle', *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", program, "devnet", "--folder", "relative"]
    paths = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        "qos-oracle: the working directory was removed; change to another one\n"
    )


def test_interrupt_while_importing_a_command_ends_the_process(tmp_path):
    """The module swallows a KeyboardInterrupt, as code that is called from C may do."""
    (tmp_path / "interrupted.py").write_text(
        "import os, signal, sys\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n    pass\n"
        "def register(app):\n    print('continued')\n"
    )
    # Python has no handler if it is started with SIGINT ignored, as in the background of a shell.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from oracle.cli.command_index import load_module_commands as load; load('interrupted')"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.slow
def test_output_pipe_closed_after_first_line_prints_nothing(tmp_path):
    events = tmp_path / "events.jsonl"
    joined = '{"type":"node_joined","block":%d,"log":0,"time":%d,"node":"0x%040x"}\n'
    # Their output is larger than a pipe's buffer.
    events.write_text("".join(joined % (number, number, number) for number in range(1, 1_000)))
    command = [sys.executable, "-m", "oracle", "replay", str(events)]
    # Without a buffer, Python treats a short write as complete.
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(
        command, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ended:
        assert ended.stdout is not None
        assert ended.stderr is not None
        assert ended.stdout.readline()
        ended.stdout.close()
        assert ended.stderr.read() == b""
    assert ended.returncode == main.BROKEN_PIPE_EXIT_CODE


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_os_error_unrelated_to_stdout_keeps_its_traceback(failure, monkeypatch):
    def fail() -> None:
        raise failure

    app = typer.Typer()
    app.command()(fail)
    monkeypatch.setattr(main, "build_app", lambda: app)

    with pytest.raises(type(failure)):
        run([])


def test_unexpected_exception_keeps_its_traceback(monkeypatch):
    def fail() -> None:
        raise KeyError("a bug")

    app = typer.Typer()
    app.command()(fail)
    monkeypatch.setattr(main, "build_app", lambda: app)

    with pytest.raises(KeyError):
        run([])


def test_command_group_without_subcommand_prints_its_help(capsys):
    assert run(["outbox"]) == 2
    assert capsys.readouterr().err.startswith("Usage: qos-oracle outbox")
