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
from oracle.cli.resync.resync_session import say, told, working
from oracle.daemon.records import open_records
from oracle.domain.logs import DeadLetter
from oracle.indexer.audit.dead_letters import open_letters, retry as retry_letters
from oracle.queries.resync_models import DeadLetterRetry, dead_letter_entry, rebuild_answer
from oracle.queries.text.text_tables import foreign, print_table

_LONGEST_ERROR = 60

deadletter = typer.Typer(no_args_is_help=True)


def register(resync: typer.Typer) -> None:
    """Register `dead-letters` under `resync`."""
    resync.add_typer(
        deadletter, name="dead-letters", help="Logs and calls that could not be read."
    )


@deadletter.command("list", epilog="Example: qos-oracle resync dead-letters list --json")
def list_letters(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """List undecodable logs and calls; the daemon may be running."""
    with open_records(load_config(config)) as records:
        letters = open_letters(records.store)
    if as_json:
        print_answer([dead_letter_entry(letter) for letter in letters])
    elif letters:
        print_table(_COLUMNS, [_row(each) for each in letters], left=("name", "error"))
    else:
        typer.echo("everything could be read")


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
    with working(config, command, dry_run=dry_run, offline=True) as (index, manner):
        retried = retry_letters(index.store, index.folder, manner)
    rebuilt = retried.rebuilt
    if as_json:
        print_answer(
            DeadLetterRetry(
                dry_run=dry_run,
                readable=[dead_letter_entry(letter) for letter in retried.readable],
                left=[dead_letter_entry(letter) for letter in retried.left],
                rebuilt=None if rebuilt is None else rebuild_answer(rebuilt, dry_run=dry_run),
            )
        )
    else:
        line = f"{len(retried.readable)} readable now, {len(retried.left)} still not"
        say(line if rebuilt is None else f"{line}; {told(rebuilt)}", dry_run=dry_run)
    if retried.left or (rebuilt is not None and rebuilt.differing):
        raise typer.Exit(1)


_COLUMNS = ("block", "tx", "log", "name", "error")


def _row(letter: DeadLetter) -> Sequence[str]:
    return (
        str(letter.block),
        str(letter.tx),
        "call" if letter.index < 0 else str(letter.index),
        foreign(letter.name),
        foreign(letter.error, _LONGEST_ERROR),
    )
