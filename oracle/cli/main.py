"""The entry point of the command line, which runs a command and reports its failure.

Exit codes: 0 done, 1 failed, 2 wrong input. An expected failure is printed as one line on stderr.
If the reader of a pipe closes it (`| head`), the process exits silently with 141, the status that
a shell reports for `git log` or `cat` when SIGPIPE ends them. The status is not 0, so that a
script with `pipefail` notices the incomplete output. SIGPIPE itself stays ignored, because it
would end a daemon when a peer closes a connection.
"""

import io
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer import TyperException
from typing_extensions import override

from oracle import __version__
from oracle.cli.command_index import HELP_OPTION_NAMES, CommandIndex
from oracle.domain.native import REQUIRED_VERSION, ignored_version
from oracle.errors import InputError, OracleError
from oracle.telemetry.safe_text import (
    escape_unprintable,
    redact_registered_secrets,
    redact_secrets,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

try:
    import resource
except ImportError:  # pragma: no cover - not available on this platform
    resource = None  # type: ignore[assignment]  # None is checked below


def disable_core_dumps_and_redact_tracebacks() -> None:
    """Disable core dumps, and redact secrets in tracebacks of all threads.

    The function must be called before the first key is opened.
    """
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.excepthook = _print_traceback
    threading.excepthook = _print_thread_traceback


def _print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a bug's traceback as Python does, but with secrets redacted."""
    text = "".join(traceback.format_exception(kind, error, trace))
    print(redact_secrets(text), end="", file=sys.stderr)


def _print_thread_traceback(hook_args: threading.ExceptHookArgs) -> None:
    if hook_args.exc_value is not None and not issubclass(hook_args.exc_type, SystemExit):
        _print_traceback(hook_args.exc_type, hook_args.exc_value, hook_args.exc_traceback)


_MAX_STACK_FRAMES = 1_000
# The mode in which each closed standard file is reopened, in the order of the file descriptors.
_STANDARD_FILES = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
# 128 plus the number of SIGPIPE, which not every platform defines.
BROKEN_PIPE_EXIT_CODE = 141
_MESSAGE_REPLACEMENTS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "not a number",
    "Input should be a valid number, unable to parse string as a number": "not a number",
}


def _show_version(*, is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"qos-oracle {__version__}")
        if ignored_version is not None:
            typer.echo(
                f"oracle_native: version {ignored_version} is installed and ignored; expected "
                f"version {REQUIRED_VERSION}; install the native code of this release",
                err=True,
            )
        raise typer.Exit


_VERSION = typer.Option(
    "--version",
    help="Print the version and exit.",
    is_eager=True,
    callback=lambda is_requested: _show_version(is_requested=is_requested),
)


@cache
def build_app() -> typer.Typer:
    """Build the Typer application, which imports a command's module on first use."""
    app = typer.Typer(
        name="qos-oracle",
        cls=CommandIndex,
        help="Compute QoS scores from a compute network's events and report them on-chain.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": HELP_OPTION_NAMES, "max_content_width": 100},
    )
    app.callback()(_root_command)
    return app


def main() -> None:
    """Run one command, and exit with its exit code."""
    # Without this setting, Pydantic would search all installed packages for plugins, which is
    # slow, and run them.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    disable_core_dumps_and_redact_tracebacks()
    _open_closed_standard_files()
    _replace_stdout()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command, and return its exit code; a bug propagates as an exception."""
    # py_ecc, which is imported for signing, raises the limit beyond what the C stack can hold, so
    # that deeply nested JSON from an endpoint would crash the process.
    sys.setrecursionlimit(_MAX_STACK_FRAMES)
    try:
        with _unwrap_broken_pipe():
            exit_code = build_app()(list(arguments), prog_name="qos-oracle", standalone_mode=False)
        # Flush now, so that a full disk is detected before the command reports success.
        sys.stdout.flush()
    except TyperException as error:
        return _print_failure(_rewrite_typer_message(error), error.exit_code)
    except OracleError as error:
        return _print_failure(str(error), 2 if isinstance(error, InputError) else 1)
    except OSError as error:
        return _handle_os_error(error)
    except typer.Abort:
        return _print_failure("aborted", 1)
    return exit_code if isinstance(exit_code, int) else 0


@contextmanager
def _unwrap_broken_pipe() -> Iterator[None]:
    """Re-raise a BrokenPipeError that Typer turned into a SystemExit."""
    try:
        yield
    except SystemExit as system_exit:
        if isinstance(system_exit.__context__, BrokenPipeError):
            raise system_exit.__context__ from None
        raise


def _handle_os_error(error: OSError) -> int:
    """Report an operating system error, such as a full disk, and return the exit code.

    An error that concerns neither a file nor stdout is raised again.
    """
    if error.filename is None and _is_working_directory_removed():
        return _print_failure("the working directory was removed; change to another one", 2)
    if error.strerror is None or (error.filename is None and not _is_stdout_error(error)):
        # The caller should have translated the error of a socket or library, so this is a bug.
        raise error
    if error.filename is None:
        # Close stdout, so that the interpreter does not write to it again at exit.
        with suppress(OSError):
            sys.stdout.close()
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE_EXIT_CODE
    return _print_failure(f"{error.filename or 'output'}: {error.strerror}", 1)


def _is_working_directory_removed() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


class OutputFile(io.FileIO):
    """The raw file behind standard output, which records errors raised by writes."""

    failures: ClassVar[list[OSError]] = []

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failures.append(error)
            raise


def _open_closed_standard_files() -> None:
    """Open `/dev/null` for each standard file that was closed before the process started.

    Otherwise the next file that the process opens would get its number, for example the database,
    and Python would print errors to stdout. Writes to a closed stdout fail, because `/dev/null` is
    opened only for reading, so lost output is reported.
    """
    for name, flags in _STANDARD_FILES.items():
        if getattr(sys, name) is None:
            # The system assigns the lowest free descriptor, which is that of the closed file.
            descriptor = os.open(os.devnull, flags)
            os.set_inheritable(descriptor, True)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def _replace_stdout() -> None:
    """Replace `sys.stdout` with a stream that records its own write errors."""
    original_stdout = sys.stdout
    original_stdout.flush()
    raw_output = OutputFile(original_stdout.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw_output),
        encoding=original_stdout.encoding,
        errors=original_stdout.errors,
        line_buffering=original_stdout.isatty() or bool(os.environ.get("PYTHONUNBUFFERED")),
    )


def _is_stdout_error(error: OSError) -> bool:
    """Return whether this error was raised by a write to standard output."""
    return any(error is failure for failure in OutputFile.failures)


def _rewrite_typer_message(error: TyperException) -> str:
    """Rewrite Typer's message in plainer words, with a hint to the command's help."""
    message = error.format_message()
    if message.startswith("Usage:"):
        return message
    for library_text, plain_text in _MESSAGE_REPLACEMENTS.items():
        message = message.replace(library_text, plain_text)
    context = getattr(error, "ctx", None)
    help_hint = "" if context is None else f" (see `{context.command_path} --help`)"
    return message.removesuffix(".") + help_hint


def _print_failure(message: str, exit_code: int) -> int:
    # If a group is called without a command, the message is the group's help.
    output_text = message if message.startswith("Usage:") else f"qos-oracle: {message}"
    # The text is escaped, because the message may quote an argument, a file or an endpoint.
    print(
        "\n".join(map(escape_unprintable, redact_registered_secrets(output_text).split("\n"))),
        file=sys.stderr,
    )
    return exit_code


def _root_command(*, version: Annotated[bool, _VERSION] = False) -> None:
    """Compute QoS scores from a compute network's events and report them on-chain."""
