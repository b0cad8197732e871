"""`run`: the daemon itself."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    open_app,
    print_answer,
)
from oracle.daemon.app import App
from oracle.daemon.main_loop import run_daemon, run_to_head
from oracle.daemon.run_phases import Sends
from oracle.daemon.startup import tracing
from oracle.daemon.stopping import StopSignal, until_told
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.errors import InputError
from oracle.queries.run_models import FoldedBlock, RunResult
from oracle.store.schema import SchemaAge, schema_state
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
    """Put `run` on the command line."""
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
    """Be the daemon: index the chain, score its nodes, report, give out tasks; until SIGTERM.

    It sends only what --publish, --dispatch or their settings say; the rest is computed and kept.
    Makes the tables of an empty database. One process works on a database at a time; others may
    stand by. Exit codes: 1 may be started again by itself, 2 needs a person.
    """
    if dispatch and publish is False:
        raise InputError("--dispatch sends transactions, and --dry-run sends none: give one")
    if once and standby:
        raise InputError("--once leaves when all is done, and --standby waits: give one")

    def work(stop: StopSignal) -> None:
        with open_app(config) as app, tracing(app.config.tracing.endpoint):
            told = app.config
            logging_setup.configure("json" if as_json else told.log.format, told.log.level)
            if schema_state(told.database.url).age is not SchemaAge.EMPTY:
                # Says at once what is wrong with it. An empty one stays so until the chain
                # is right.
                app.require_store()
            sends = Sends(
                reports=told.oracle.publish if publish is None else publish,
                starts=(told.dispatch.enabled and publish is not False)
                if dispatch is None
                else dispatch,
            )
            if sends.reports or sends.starts:
                app.refuse_unproven()
            if once:
                run_to_head(app, sends, stop)
                if as_json:
                    print_answer(_reached(app, sends))
            else:
                run_daemon(app, sends, stop, is_standby=standby)

    raise_descriptor_limit()
    until_told(work)


def _reached(app: App, sends: Sends) -> RunResult:
    """Return how far the index is, and what could be sent on the way."""
    with app.store.reading() as uow:
        cursor = uow.cursor.get()
    return RunResult(
        folded=None if cursor is None else FoldedBlock(block=cursor.number, time=cursor.time),
        publishing=sends.reports,
        dispatching=sends.starts,
    )
