"""Shared command options, and functions that read input files and print results."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeAlias

import typer

from oracle.daemon.config.loader import Config, read_config
from oracle.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import BaseModel

    _Answer: TypeAlias = BaseModel | DataclassInstance

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        envvar="QOS_ORACLE_CONFIG",
        help="Configuration file (TOML).",
        metavar="FILE",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
NodeArgument = Annotated[
    str,
    typer.Argument(metavar="NODE", help="Address of the node, or an unambiguous prefix of it."),
]
BackupArgument = Annotated[
    Path,
    typer.Argument(
        metavar="BACKUP",
        help=("Path of the backup file, which `backup` and `upgrade` write and `restore` reads."),
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change, change nothing.")
]

YesOption = Annotated[bool, typer.Option("--yes", help="Do not prompt for confirmation.")]

# The largest whole number that both databases store.
MAX_STORED_NUMBER = 2**63 - 1

DEFAULT_CONFIG = Path("config/local.toml")
_STDIN = "-"


def confirm_action(action: str, *, yes: bool, dry_run: bool) -> bool:
    """Return True if the action is confirmed, or False for a dry run.

    See docs/how-to/manual-intervention.md#confirmation.

    Raises:
        InputError: the user declined, or there is no terminal to ask for confirmation.
    """
    if dry_run or yes:
        return not dry_run
    if sys.stdin.isatty() and typer.confirm(f"{action}: proceed?", err=True):
        return True
    raise InputError(
        f"{action}: not confirmed, nothing was done; use --yes to proceed, or --dry-run to see "
        "what would happen"
    )


def load_config(path: Path) -> Config:
    """Load the configuration, and configure logging by its section `[log]`.

    Logs go to stderr.

    Raises:
        InputError: the configuration has faults; one message lists all of them.
    """
    config = read_config(path)
    configure_log_output(config)
    return config


def configure_log_output(config: Config) -> None:
    """Configure logging by `[log]` if the configuration was read without it."""
    from oracle.telemetry import logging_setup  # noqa: PLC0415  slow to import, not needed earlier

    logging_setup.configure_logging(config.log.format, config.log.level)


def print_model(model: "_Answer | Sequence[_Answer] | None") -> None:
    """Print a model of the HTTP API, or a list of models, as one JSON document.

    None, which is the result for an empty index, is printed as null.
    """
    from pydantic_core import to_json  # noqa: PLC0415  `--version` needs no pydantic

    typer.echo(to_json(model, indent=2, ensure_ascii=True).decode())


def print_json(value: object) -> None:
    """Print a value as one JSON document on stdout; dictionaries keep their key order."""
    typer.echo(json.dumps(value, indent=2, default=str))


@contextmanager
def open_lines(file: str) -> Iterator[Iterator[str]]:
    """Open a file, or stdin for `-`, and yield an iterator over its lines.

    An InputError raised by the caller gets the name of the file as a prefix. Lines end at line
    feeds only, because strings may contain other line separators.

    Raises:
        InputError: the file cannot be read or is not UTF-8, or the caller found a fault in it.
    """
    with _open_binary_stream(file) as stream:
        try:
            yield _decode_lines(stream)
        except InputError as error:
            raise InputError(f"{'stdin' if file == _STDIN else file}: {error}") from None


@contextmanager
def _open_binary_stream(file: str) -> Iterator[BinaryIO]:
    if file == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below, errors distinguished
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    with stream:
        yield stream


def _decode_lines(stream: BinaryIO) -> Iterator[str]:
    for line_number, raw_line in enumerate(stream, start=1):
        try:
            yield raw_line.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"line {line_number}: the line is not UTF-8 text") from None
