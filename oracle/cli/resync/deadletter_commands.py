"""`resync dead-letters`: lists undecodable logs and calls, and retries them."""

from collections.abc import Sequence

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_answer,
)
from oracle.cli.resync.resync_session import describe_rebuild, open_resync_session, print_line
from oracle.daemon.records import open_records
from oracle.domain.logs import DeadLetter
from oracle.indexer.rebuild import get_open_letters, retry_dead_letters as retry_letters
from oracle.queries.resync_models import (
    DeadLetterRetry,
    build_dead_letter_entry,
    build_rebuild_answer,
)
from oracle.queries.text.text_tables import print_table, sanitize_text

_MAX_ERROR_LENGTH = 60

deadletter = typer.Typer(no_args_is_help=True)


def register(resync: typer.Typer) -> None:
    """Register `dead-letters` under `resync`."""
    resync.add_typer(
        deadletter,
        name="dead-letters",
        help="List and retry logs and calls that could not be decoded.",
    )


@deadletter.command("list", epilog="Example: qos-oracle resync dead-letters list --json")
def list_dead_letters(
    config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """List undecodable logs and calls; the daemon may be running."""
    with open_records(load_config(config)) as records:
        letters = get_open_letters(records.store)
    if as_json:
        print_answer([build_dead_letter_entry(letter) for letter in letters])
    elif letters:
        print_table(
            _COLUMNS,
            [_format_row(dead_letter) for dead_letter in letters],
            left_columns=("name", "error"),
        )
    else:
        typer.echo("no dead letters")


@deadletter.command(epilog="Example: qos-oracle resync dead-letters retry --dry-run")
def retry(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Retry undecodable logs, and rebuild the state if any is readable.

    No endpoint is contacted. The state is then the same as if the log had been readable from the
    start. Exit code 1 if a log is still unreadable, or a stored report comes out differently.
    """
    command = "resync dead-letters retry"
    with open_resync_session(config, command, dry_run=dry_run, offline=True) as (
        index,
        rebuild_options,
    ):
        retry_result = retry_letters(index.store, index.folder, rebuild_options)
    rebuilt = retry_result.rebuilt
    if as_json:
        print_answer(
            DeadLetterRetry(
                dry_run=dry_run,
                readable=[build_dead_letter_entry(letter) for letter in retry_result.readable],
                left=[build_dead_letter_entry(letter) for letter in retry_result.unreadable],
                rebuilt=None
                if rebuilt is None
                else build_rebuild_answer(rebuilt, dry_run=dry_run),
            )
        )
    else:
        line = f"{len(retry_result.readable)} decoded, {len(retry_result.unreadable)} not"
        print_line(
            line if rebuilt is None else f"{line}; {describe_rebuild(rebuilt)}", dry_run=dry_run
        )
    if retry_result.unreadable or (rebuilt is not None and rebuilt.differing):
        raise typer.Exit(1)


_COLUMNS = ("block", "tx", "log", "name", "error")


def _format_row(letter: DeadLetter) -> Sequence[str]:
    return (
        str(letter.block),
        str(letter.tx),
        "call" if letter.index < 0 else str(letter.index),
        sanitize_text(letter.name),
        sanitize_text(letter.error, _MAX_ERROR_LENGTH),
    )
