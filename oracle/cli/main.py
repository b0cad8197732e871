"""The command line as a whole, and the one door that failures leave by.

Exit codes: 0 done, 1 failed, 2 wrong input. A failure we have a word for is one line on stderr.
Who reads only the beginning (`| head`) has what he wanted: we end without a word, with 141, as a
shell tells of `git log` or `cat`, which SIGPIPE ends there. Not 0: not all was written, and a
script with `pipefail` may want to know. Not by the signal itself, which would end a daemon whose
peer hangs up.
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
except ImportError:  # pragma: no cover - no such thing there
    resource = None  # type: ignore[assignment]  # which is what is asked below


def guard_process() -> None:
    """Do both, for all threads; before the first key is opened."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.excepthook = _tell
    threading.excepthook = _tell_of_thread


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a bug's traceback as Python would, but for what is secret in it."""
    text = "".join(traceback.format_exception(kind, error, trace))
    print(without_secrets(text), end="", file=sys.stderr)


def _tell_of_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_value is not None and not issubclass(told.exc_type, SystemExit):
        _tell(told.exc_type, told.exc_value, told.exc_traceback)


_MOST_FRAMES = 1_000
# 128 and the number of SIGPIPE, which not every system has a name for.
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
    """Return the whole command line; a command's module is imported when it is asked for."""
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
    """Run one command and leave with its exit code."""
    guard_process()
    _watch_output()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code. A bug passes through with its traceback."""
    # py_ecc, which signing imports, raises it to what no C stack bears: deeply nested JSON of
    # an endpoint would then crash the process.
    sys.setrecursionlimit(_MOST_FRAMES)
    try:
        with _pipes_that_close():
            returned = build()(list(arguments), prog_name="qos-oracle", standalone_mode=False)
        # A full disk is heard of here, and not after we said that all went well.
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
    """Let a closed pipe be heard of, which the library itself would end the process for."""
    try:
        yield
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):
            raise left.__context__ from None
        raise


def _unwritten(error: OSError) -> int:
    """A disk that is full, a folder that is not ours, a pipe that is closed: no bug of ours."""
    if error.strerror is None or (error.filename is None and not _is_of_output(error)):
        # A socket's or a library's failure, which its package should have translated: a bug.
        raise error
    if error.filename is None:
        # What could not be written is not tried again when the process ends.
        with suppress(OSError):
            sys.stdout.close()
    if isinstance(error, BrokenPipeError):
        return NOBODY_READS
    return _failed(f"{error.filename or 'output'}: {error.strerror}", 1)


class OutputFile(io.FileIO):
    """Standard output's own file; remembers the errors that writing to it raised."""

    failures: ClassVar[list[OSError]] = []

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failures.append(error)
            raise


def _watch_output() -> None:
    """Put a standard output in place of Python's that knows which errors are its own."""
    output = sys.stdout
    if output is None:  # pragma: no cover - closed before we began
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
    """Tell whether this very error was raised by writing to standard output."""
    return any(error is one for one in OutputFile.failures)


def _in_our_words(error: TyperException) -> str:
    """Say what Typer found without what Pydantic calls it, and whose help tells more."""
    message = error.format_message()
    if message.startswith("Usage:"):
        return message
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    context = getattr(error, "ctx", None)
    more = "" if context is None else f" (see `{context.command_path} --help`)"
    return message.removesuffix(".") + more


def _failed(line: str, code: int) -> int:
    # A group without a command is answered with its help.
    said = line if line.startswith("Usage:") else f"qos-oracle: {line}"
    # It may name what somebody else wrote: an argument, a file, an answer of an endpoint.
    print("\n".join(map(escaped, without_hidden(said).split("\n"))), file=sys.stderr)
    return code


def _root(*, version: Annotated[bool, _VERSION] = False) -> None:
    """Folds a compute network's events into QoS scores and reports them on-chain."""
