"""Implements `run`, which runs the daemon."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    print_model,
)
from oracle.daemon.config.loader import read_config
from oracle.daemon.main_loop import run_daemon, run_to_head
from oracle.daemon.senders import check_feed_publishing_allowed
from oracle.daemon.startup import SendPermissions, export_traces, warn_if_native_code_ignored
from oracle.daemon.stopping import StopSignal, run_until_signalled
from oracle.daemon.web.listener import raise_descriptor_limit
from oracle.errors import InputError
from oracle.queries.command_models import FoldedBlock, RunResult
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import logging_setup

_PublishOption = Annotated[
    bool | None,
    typer.Option(
        "--publish/--dry-run",
        help="Send reports and kickouts, or send no transactions at all. Default: oracle.publish.",
    ),
]

_DispatchOption = Annotated[
    bool | None,
    typer.Option(
        "--dispatch/--no-dispatch",
        help=(
            "Start assigned tasks on-chain, or only assign them. Default: dispatch.enabled; "
            "off with --dry-run."
        ),
    ),
]


def register(app: typer.Typer) -> None:
    app.command(
        "run", epilog="Example: qos-oracle run --config config/local.toml --publish --dispatch"
    )(run)


def run(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Catch up with the chain head, run everything that is due, and exit."
        ),
    ] = False,
    publish: _PublishOption = None,
    dispatch: _DispatchOption = None,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Wait while another daemon holds the lease, and take over when it stops.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Write logs as JSON lines; with --once, also print the result as JSON.",
        ),
    ] = False,
) -> None:
    """Run the daemon until SIGTERM.

    Indexes the chain, scores nodes, publishes reports and dispatches tasks. Transactions are sent
    only if --publish, --dispatch or their settings enable them; all other results are computed and
    stored. Creates the schema if the database is empty. Only one daemon can write to a database at
    a time; other daemons can wait with --standby. Exit code 1: a supervisor may restart the
    daemon; exit code 2: an operator has to act.
    """
    if dispatch and publish is False:
        raise InputError("--dispatch and --dry-run: mutually exclusive; give one")
    if once and standby:
        raise InputError("--once and --standby: mutually exclusive; give one")

    def run_until_stopped(stop: StopSignal) -> None:
        loaded_config = read_config(config)
        logging_setup.configure_logging(
            "json" if as_json else loaded_config.log.format, loaded_config.log.level
        )
        warn_if_native_code_ignored()
        enabled_sends = SendPermissions(
            reports=loaded_config.oracle.publish if publish is None else publish,
            starts=(loaded_config.dispatch.enabled and publish is not False)
            if dispatch is None
            else dispatch,
        )
        if enabled_sends.reports or enabled_sends.starts:
            check_feed_publishing_allowed(loaded_config)
        with export_traces(loaded_config.tracing.endpoint):
            if not once:
                run_daemon(loaded_config, enabled_sends, stop, is_standby=standby)
                return
            cursor = run_to_head(loaded_config, enabled_sends, stop)
        if as_json:
            print_model(_build_run_result(cursor, enabled_sends))

    raise_descriptor_limit()
    run_until_signalled(run_until_stopped)


def _build_run_result(cursor: Cursor | None, enabled_sends: SendPermissions) -> RunResult:
    """Return the last folded block, and which kinds of transactions were enabled."""
    return RunResult(
        folded=None if cursor is None else FoldedBlock(block=cursor.number, time=cursor.time),
        publishing=enabled_sends.reports,
        dispatching=enabled_sends.starts,
    )
