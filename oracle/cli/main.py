"""The command line as a whole: the entry point and the handling of every failure.

Exit codes: 0 done, 1 failed, 2 wrong input. An expected failure is printed as one line on stderr.
If the reader of a pipe closes it (`| head`), the process exits silently with 141, the status that
a shell reports for `git log` or `cat` when SIGPIPE ends them. The status is not 0, because the
output is incomplete and a script with `pipefail` may want to know. SIGPIPE itself stays ignored,
because it would end a daemon whose peer hangs up.
"""

import io
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer import TyperException
from typing_extensions import override

from oracle import __version__
from oracle.cli.command_index import CommandIndex
from oracle.errors import InputError, OracleError
from oracle.telemetry.safe_text import escaped, without_hidden, without_secrets

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

try:
    import resource
except ImportError:  # pragma: no cover - not available on this platform
    resource = None  # type: ignore[assignment]  # None is checked below


def guard_process() -> None:
    """Disable core dumps and redact secrets in tracebacks, in every thread.

    Must be called before the first key is opened.
    """
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.excepthook = _tell
    threading.excepthook = _tell_of_thread


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a bug as Python would, with secrets redacted."""
    text = "".join(traceback.format_exception(kind, error, trace))
    print(without_secrets(text), end="", file=sys.stderr)


def _tell_of_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_value is not None and not issubclass(told.exc_type, SystemExit):
        _tell(told.exc_type, told.exc_value, told.exc_traceback)


_MOST_FRAMES = 1_000
# 128 plus the number of SIGPIPE, which not every platform defines.
NOBODY_READS = 141
_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it is no number",
    "Input should be a valid number, unable to parse string as a number": "it is no number",
}


def _show_version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"qos-oracle {__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version",
    help="Print the version and leave.",
    is_eager=True,
    callback=lambda asked: _show_version(asked=asked),
)


@cache
def build() -> typer.Typer:
    """Return the Typer application; the module of a command is imported when it is used."""
    app = typer.Typer(
        name="qos-oracle",
        cls=CommandIndex,
        help="Folds a compute network's events into QoS scores and reports them on-chain.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    return app


def main() -> None:
    """Run one command and exit with its exit code."""
    guard_process()
    _watch_output()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. A bug propagates with its traceback."""
    # py_ecc, which signing imports, raises the limit beyond what the C stack can hold: deeply
    # nested JSON of an endpoint would then crash the process.
    sys.setrecursionlimit(_MOST_FRAMES)
    try:
        with _pipes_that_close():
            returned = build()(list(arguments), prog_name="qos-oracle", standalone_mode=False)
        # A full disk must be detected here, before success is reported.
        sys.stdout.flush()
    except TyperException as error:
        return _failed(_in_our_words(error), error.exit_code)
    except OracleError as error:
        return _failed(str(error), 2 if isinstance(error, InputError) else 1)
    except OSError as error:
        return _unwritten(error)
    except typer.Abort:
        return _failed("given up", 1)
    return returned if isinstance(returned, int) else 0


@contextmanager
def _pipes_that_close() -> Iterator[None]:
    """Raise BrokenPipeError where Typer would end the process instead."""
    try:
        yield
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):
            raise left.__context__ from None
        raise


def _unwritten(error: OSError) -> int:
    """Report an operating system error: a full disk, a missing permission, a closed pipe.

    Return the exit code; an error that does not belong to a file or to stdout is raised again.
    """
    if error.strerror is None or (error.filename is None and not _is_of_output(error)):
        # A failure of a socket or a library, which its package should have translated: a bug.
        raise error
    if error.filename is None:
        # Closing stdout prevents a second write attempt at interpreter exit.
        with suppress(OSError):
            sys.stdout.close()
    if isinstance(error, BrokenPipeError):
        return NOBODY_READS
    return _failed(f"{error.filename or 'output'}: {error.strerror}", 1)


class OutputFile(io.FileIO):
    """The raw file of standard output; records the errors that writes raised."""

    failures: ClassVar[list[OSError]] = []

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failures.append(error)
            raise


def _watch_output() -> None:
    """Replace `sys.stdout` with a stream that records its own write errors."""
    output = sys.stdout
    if output is None:  # pragma: no cover - closed before the process started
        return
    output.flush()
    raw = OutputFile(output.fileno(), "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=output.encoding,
        errors=output.errors,
        line_buffering=output.isatty() or bool(os.environ.get("PYTHONUNBUFFERED")),
    )


def _is_of_output(error: OSError) -> bool:
    """Return whether this error object was raised by a write to standard output."""
    return any(error is one for one in OutputFile.failures)


def _in_our_words(error: TyperException) -> str:
    """Return the message of Typer without Pydantic's wording, with a pointer to the help."""
    message = error.format_message()
    if message.startswith("Usage:"):
        return message
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    context = getattr(error, "ctx", None)
    more = "" if context is None else f" (see `{context.command_path} --help`)"
    return message.removesuffix(".") + more


def _failed(line: str, code: int) -> int:
    # A group without a command prints its help.
    said = line if line.startswith("Usage:") else f"qos-oracle: {line}"
    # The message may contain text from outside: an argument, a file, a response of an endpoint.
    print("\n".join(map(escaped, without_hidden(said).split("\n"))), file=sys.stderr)
    return code


def _root(*, version: Annotated[bool, _VERSION] = False) -> None:
    """Compute QoS scores from a compute network's events and report them on-chain."""
