"""`resync`: go back, fold anew, fetch again; each is one transaction and may be interrupted.

None of them touches nonces, signed transactions or reports that landed.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from oracle.app import App
from oracle.domain.block import BlockRange
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.entrypoints.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    open_app,
    print_json,
)
from oracle.errors import InputError
from oracle.services.backfilling import Backfilled, backfill as backfill_blocks
from oracle.services.leasing import leased, renew
from oracle.services.refolding import Manner, Refolded, refold as refold_rows
from oracle.services.rewinding import Rewound, rewind_to

# Missing rows named on a terminal; `--json` names all.
MOST_LINES = 20

resync = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Put `resync` on the command line."""
    app.add_typer(resync, name="resync", help="Go back, fold anew, or fetch blocks again.")


@resync.command()
def rewind(
    to_block: Annotated[
        int, typer.Option("--to-block", min=0, metavar="N", help="The block to go back to.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go back to a block: by the undo journal, or where it ends by folding anew.

    What the chain said above it is kept, marked as not canonical; the daemon fetches it again.
    Reports above it that have not landed are missed.

    Example: qos-oracle resync rewind --to-block 19000000 --dry-run
    """
    with _working(config, "resync rewind", dry_run=dry_run) as (app, manner):
        rewound = rewind_to(app.chain, app.store, app.folder, to_block, manner)
    if as_json:
        print_json(_rewound(rewound, dry_run=dry_run))
        return
    way = "by folding anew: the undo journal ends above it" if rewound.by_refold else "by journal"
    line = (
        f"back from block {rewound.abandoned} to {rewound.ancestor.number}, {way}; "
        f"{rewound.logs} logs set aside, {rewound.reports} reports missed"
    )
    _say(line, dry_run=dry_run)


@resync.command()
def refold(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fold all stored logs anew, without asking the chain, and compare with what was there.

    Exit code 1 where the state or a report comes out differently. The new state stays, reports
    are never changed.

    Example: qos-oracle resync refold --json
    """
    with _working(config, "resync refold", dry_run=dry_run, offline=True) as (app, manner):
        refolded = refold_rows(app.store, app.folder, manner)
    if as_json:
        print_json(_refolded(refolded, dry_run=dry_run))
    else:
        _say(_told(refolded), dry_run=dry_run)
    if refolded.differing or not refolded.same:
        raise typer.Exit(1)


@resync.command()
def backfill(
    first: Annotated[int, typer.Option("--from", min=0, metavar="N", help="The first block.")],
    last: Annotated[int, typer.Option("--to", min=0, metavar="N", help="The last block.")],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch blocks again, put in the logs that are missing, and fold anew if there were any.

    Logs that we have and the chain does not give now are counted and stay. Exit code 1 where a
    kept report comes out differently.

    Example: qos-oracle resync backfill --from 19000000 --to 19010000 --dry-run
    """
    if first > last:
        raise InputError(f"--from {first} lies above --to {last}")
    with _working(config, "resync backfill", dry_run=dry_run) as (app, manner):
        blocks = BlockRange(first, last)
        found = backfill_blocks(app.chain, app.store, app.folder, blocks, manner)
    if as_json:
        print_json(_backfilled(found, dry_run=dry_run))
    else:
        for line in _lines(found):
            _say(line, dry_run=dry_run)
    if found.refolded is not None and found.refolded.differing:
        raise typer.Exit(1)


@contextmanager
def _working(
    config: Path, command: str, *, dry_run: bool, offline: bool = False
) -> Iterator[tuple[App, Manner]]:
    """Open the rooms, hold the lease, and show how far the work is, on a terminal only."""
    with open_app(config) as app:
        _check_network(app, offline=offline)
        with leased(app.store, command) as epoch, _bar(command) as tell:

            def keep_lease() -> None:
                renew(app.store, epoch)

            yield app, Manner(dry_run, tell, epoch, keep_lease)


def _check_network(app: App, *, offline: bool) -> None:
    """Let nobody work on a database with the settings of another network.

    Raises:
        InputError: they differ, or nothing is indexed yet.
    """
    told = app.config
    with app.store.reading() as unit:
        known = unit.identity.get()
    if known is None:
        raise InputError("nothing is indexed yet: `qos-oracle run` fetches everything")
    wanted = replace(
        known,
        chain_id=told.chain.id,
        genesis_hash=known.genesis_hash if offline else app.chain.genesis_hash(),
        contracts={name: Address(at) for name, at in told.network.contracts.items()},
        oracle=None if told.oracle.address is None else Address(told.oracle.address),
        start_block=told.chain.start_block,
    )
    with app.store.reading() as unit:
        # It is there already, so this only compares.
        unit.identity.set(wanted)


@contextmanager
def _bar(command: str) -> Iterator[Callable[[int, int], None]]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(command, total=None)
        yield lambda block, last: bar.update(task, completed=block, total=last)


def _say(line: str, *, dry_run: bool) -> None:
    typer.echo(f"dry run, nothing changed: {line}" if dry_run else line)


def _told(refolded: Refolded) -> str:
    state = "the same state" if refolded.same else "ANOTHER STATE than before"
    reports = f"{refolded.reports} reports compared"
    if refolded.differing:
        periods = ", ".join(str(period) for period in refolded.differing)
        reports += f", DIFFERENT in periods {periods}"
    return f"folded {refolded.logs} logs up to block {refolded.last}: {state}; {reports}"


def _lines(found: Backfilled) -> Iterator[str]:
    missing: list[Log | Call] = [*found.missing_logs, *found.missing_calls]
    for row in missing[:MOST_LINES]:
        yield f"missing: {_named(row)}"
    if len(missing) > MOST_LINES:
        yield f"missing: and {len(missing) - MOST_LINES} more (--json names all)"
    if found.unserved:
        yield f"{found.unserved} logs of ours were not served now; they stay"
    blocks = f"blocks {found.blocks.first} to {found.blocks.last}"
    if found.refolded is None:
        yield f"{blocks}: {found.served} logs served, none was missing"
        return
    yield f"{blocks}: {found.served} logs served, put in {len(missing)}; {_told(found.refolded)}"


def _named(row: Log | Call) -> str:
    where = f"block {row.block}, transaction {row.tx_hash}"
    return f"log {row.index} of {where}" if isinstance(row, Log) else f"call of {where}"


def _rewound(rewound: Rewound, *, dry_run: bool) -> Mapping[str, object]:
    return {
        "dry_run": dry_run,
        "block": rewound.ancestor.number,
        "hash": rewound.ancestor.hash,
        "from_block": rewound.abandoned,
        "logs": rewound.logs,
        "reports_missed": rewound.reports,
        "by": "refold" if rewound.by_refold else "journal",
    }


def _refolded(refolded: Refolded, *, dry_run: bool) -> Mapping[str, object]:
    return {
        "dry_run": dry_run,
        "block": refolded.last,
        "logs": refolded.logs,
        "same_state": refolded.same,
        "reports": refolded.reports,
        "differing_periods": list(refolded.differing),
    }


def _backfilled(found: Backfilled, *, dry_run: bool) -> Mapping[str, object]:
    refolded = found.refolded
    return {
        "dry_run": dry_run,
        "from": found.blocks.first,
        "to": found.blocks.last,
        "served": found.served,
        "missing_logs": [
            {"block": log.block, "log": log.index, "tx_hash": log.tx_hash}
            for log in found.missing_logs
        ],
        "missing_calls": [
            {"block": call.block, "tx_hash": call.tx_hash} for call in found.missing_calls
        ],
        "unserved": found.unserved,
        "refolded": None if refolded is None else _refolded(refolded, dry_run=dry_run),
    }
