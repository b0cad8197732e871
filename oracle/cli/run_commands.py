"""`run`: runs the daemon."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    print_answer,
)
from oracle.daemon.config.loader import load
from oracle.daemon.main_loop import run_daemon, run_to_head
from oracle.daemon.process import Sends
from oracle.daemon.senders import refuse_unproven
from oracle.daemon.startup import tracing
from oracle.daemon.stopping import StopSignal, until_told
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.errors import InputError
from oracle.queries.run_models import FoldedBlock, RunResult
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import logging_setup

_SendOption = Annotated[
    bool | None,
    typer.Option(
        "--publish/--dry-run",
        help="Send reports and kickouts, or send nothing at all. Default: oracle.publish.",
    ),
]

_StartOption = Annotated[
    bool | None,
    typer.Option(
        "--dispatch/--no-dispatch",
        help="Start drawn tasks on chain, or only draw. Default: dispatch.enabled, not with "
        "--dry-run.",
    ),
]


def register(app: typer.Typer) -> None:
    """Register `run` on the command line."""
    app.command(
        "run", epilog="Example: qos-oracle run --config config/local.toml --publish --dispatch"
    )(run)


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Catch up with the head, do what is due, and leave.")
    ] = False,
    publish: _SendOption = None,
    dispatch: _StartOption = None,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Where another daemon leads, wait, and take over from it."),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Log as JSON lines; --once prints at its end how far it is."),
    ] = False,
) -> None:
    """Run the daemon until SIGTERM.

    Indexes the chain, scores nodes, publishes reports and dispatches tasks. Transactions are sent
    only if --publish, --dispatch or their settings enable them; everything else is computed and
    stored. An empty database gets its schema. One process works on a database at a time; others
    may wait in standby. Exit code 1: a supervisor may restart the daemon; exit code 2: an operator
    has to act.
    """
    if dispatch and publish is False:
        raise InputError("--dispatch sends transactions, and --dry-run sends none: give one")
    if once and standby:
        raise InputError("--once leaves when all is done, and --standby waits: give one")

    def work(stop: StopSignal) -> None:
        settings = load(config)
        logging_setup.configure("json" if as_json else settings.log.format, settings.log.level)
        sends = Sends(
            reports=settings.oracle.publish if publish is None else publish,
            starts=(settings.dispatch.enabled and publish is not False)
            if dispatch is None
            else dispatch,
        )
        if sends.reports or sends.starts:
            refuse_unproven(settings)
        with tracing(settings.tracing.endpoint):
            if not once:
                run_daemon(settings, sends, stop, is_standby=standby)
                return
            cursor = run_to_head(settings, sends, stop)
        if as_json:
            print_answer(_reached(cursor, sends))

    raise_descriptor_limit()
    until_told(work)


def _reached(cursor: Cursor | None, sends: Sends) -> RunResult:
    """Return the last folded block and which kinds of transactions were enabled."""
    return RunResult(
        folded=None if cursor is None else FoldedBlock(block=cursor.number, time=cursor.time),
        publishing=sends.reports,
        dispatching=sends.starts,
    )
