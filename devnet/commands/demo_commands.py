"""Defines the commands `demo` and `devnet`, which run the whole oracle on a local chain."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from devnet.commands.crynux_demo import run_crynux_demo
from devnet.commands.demo_verdict import explain_node_score, print_verdict
from devnet.commands.relay_demo import run_relay_demo
from devnet.demo.demo_nodes import HOPELESS
from devnet.demo.demo_system import CRYNUX_SYSTEM, DEMO_SYSTEMS, DemoSystem
from devnet.demo.ending import DemoSummary
from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, DemoOptions, start_demo
from devnet.local_network import LocalNetworkOptions, run_devnet
from devnet.relay.relay_show import NETWORK as RELAY
from oracle.cli.options import JsonOption
from oracle.daemon.stopping import StopSignal, listen_for_signals
from oracle.errors import FatalError, InputError

_PortOption = Annotated[
    int, typer.Option(help="Port of the local chain; 0 selects a free port.", min=0, max=65_535)
]
_REFERENCE_NETWORK = "reference"
# Maximum number of the daemon's warnings that are printed after a failed demo.
_MAX_SHOWN_WARNINGS = 50
_DEMO_CLEANUP_TEXT = "chain and daemon are stopped, and their folder with keys is deleted"
# SIGHUP is included, so that closing the terminal shuts chain and daemon down in order, like
# Ctrl-C.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def register(app: typer.Typer) -> None:
    """Register the `demo` and `devnet` commands."""
    app.command("demo", epilog="Example: qos-oracle demo --json")(_run_demo)
    app.command("devnet", epilog="Example: qos-oracle devnet --folder devnet --port 8545")(
        _run_devnet
    )


def _run_demo(
    *,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the network running after the demo; Ctrl-C stops it."),
    ] = False,
    port: _PortOption = 0,
    waves: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of task waves; with fewer than about 60, no node is kicked out.",
            min=1,
        ),
    ] = None,
    network: Annotated[
        str, typer.Option(metavar="PROFILE", help="Profile whose contracts the demo deploys.")
    ] = _REFERENCE_NETWORK,
    system: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"Rule set and policy of the demo: {', '.join(DEMO_SYSTEMS)}."
        ),
    ] = CRYNUX_SYSTEM.name,
    json_: JsonOption = False,
) -> None:
    """Run the complete oracle on a local chain (three minutes).

    Exits with 0 only if all checks of the demo pass. A contract must verify the proof of every
    node's score, and every score must equal the result of an independent replay of the chain's
    logs. An account without any role must kick the worst node out, and this node must withdraw its
    stake. The worst node's signed objection must be submitted on chain and refuted. The automatic
    check must support the objection of a node that runs only tasks of one application, and the
    operator must accept this objection. An incident must mark the timeouts of a failing
    application. With --waves, checks that are not reached are omitted.

    With --system crynux-docs, the same network follows exactly the rules of Crynux's published
    page.

    With --system legacy, the demo simulates the network of 2024. Every task runs on a group of
    three nodes, which are drawn and started together; the nodes of a text task have the same GPU.
    The order of commitments and reveals determines the scores, and the fee is split in proportion
    to the scores. Nodes without work get system tasks.

    With --network crynux-vss or crynux-commit, the demo simulates Crynux's own contracts, and the
    daemon's results must equal the results of a process that reads the whole chain independently.
    The daemon reports the scores of crynux-vss and kicks the worst node out through an adapter; it
    only reads crynux-commit. With crynux-relay, only the stakes are on chain, and a simulated
    relay serves all other data. The daemon reads both and audits the relay.
    """
    stop = StopSignal()
    options = DemoOptions(_resolve_demo_system(system, network), port=port, stop=stop.event)
    if waves is not None:
        if network != _REFERENCE_NETWORK:
            raise InputError(
                "--waves: only applies to the demo with this project's contracts, not to "
                f"{network}"
            )
        options = replace(options, waves=waves, may_end_early=True)
    with _report_interruption(stop, _DEMO_CLEANUP_TEXT), listen_for_signals(stop, _STOP_SIGNALS):
        if network == RELAY:
            run_relay_demo(options, as_json=json_)
        elif network != _REFERENCE_NETWORK:
            run_crynux_demo(network, options, keep=keep, as_json=json_)
        else:
            _run_reference_demo(options, keep=keep, as_json=json_)


def _run_reference_demo(options: DemoOptions, *, keep: bool, as_json: bool) -> None:
    """Run the demo on the reference contracts and print its verdict.

    Raises:
        FatalError: a check failed, or the user stopped the demo.
    """
    with (
        Screen(Console(stderr=True), start=START_TIME) as screen,
        start_demo(screen, options) as (demo_show, daemon, addresses),
    ):
        demo_show.run_until_kickout(daemon, options)
        summary = demo_show.finish_and_verify_demo(daemon, options)
        screen.close()
        _print_summary(summary, daemon.configuration, as_json=as_json)
        if keep:
            for name, address in addresses.items():
                screen.print_line(f"{name:8} {address}")
            screen.print_line("the network keeps running; press Ctrl-C to stop it")
            demo_show.run_until_stopped(daemon)
        if not summary.has_passed:
            _print_daemon_diagnostics(daemon.configuration)
        daemon.stop()
    if not summary.has_passed:
        raise FatalError("the demo failed: " + "; ".join(summary.faults))


def _print_daemon_diagnostics(configuration: Path) -> None:
    """Print the daemon's status and warnings to stderr.

    They are printed because the daemon's database and log are deleted together with the demo.
    """
    for command in (("status",), ("kickout", "list"), ("outbox", "list")):
        arguments = [sys.executable, "-m", "oracle", *command, "--config", str(configuration)]
        completed_process = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
        typer.echo(
            f"{' '.join(command)}:\n{completed_process.stdout}{completed_process.stderr}", err=True
        )
    log_lines = configuration.with_name("daemon.log").read_text("utf-8").splitlines()
    warnings = [line for line in log_lines if '"level": "info"' not in line]
    typer.echo(
        "\n".join(["warnings in the daemon's log:", *warnings[-_MAX_SHOWN_WARNINGS:]]), err=True
    )


def _resolve_demo_system(name: str, network: str) -> DemoSystem:
    """Return the demo system that `--system` names, after checking the network.

    The stand-ins of Crynux's contracts support only their own system.
    """
    if name not in DEMO_SYSTEMS:
        raise InputError(
            f"--system {name}: unknown system; expected one of: {', '.join(DEMO_SYSTEMS)}"
        )
    if network != _REFERENCE_NETWORK and name != CRYNUX_SYSTEM.name:
        raise InputError(
            f"--system: only applies to the demo with this project's contracts, not to {network}"
        )
    return DEMO_SYSTEMS[name]


@contextmanager
def _report_interruption(stop: StopSignal, cleanup_text: str) -> Iterator[None]:
    """Print what was deleted and what remains, if a signal ends the context."""
    try:
        yield
    finally:
        if stop.reason is not None:
            typer.echo(f"stopped by {stop.reason}: {cleanup_text}", err=True)


def _print_summary(summary: DemoSummary, configuration: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(summary.to_json())
        return
    (node,) = (
        node_reading.node for node_reading in summary.nodes if node_reading.name == HOPELESS.name
    )
    print_verdict(summary, explain_node_score(configuration, node), Console(highlight=False))
    if not summary.kickout_played:
        typer.echo("The kickout was not checked, because --waves ended the demo before it.")


def _run_devnet(
    *,
    folder: Annotated[
        Path, typer.Option(help="New folder for keys and configuration.", metavar="DIR")
    ] = Path("devnet"),
    port: _PortOption = 8545,
    block_seconds: Annotated[
        float, typer.Option(help="Seconds between two blocks.", min=0.01)
    ] = 1.0,
    chaos: Annotated[
        int | None,
        typer.Option(
            help="Put two faulty endpoints with this random seed in front of the chain. Default: "
            "no faults.",
            metavar="SEED",
            min=0,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all addresses once, as one line of JSON.")
    ] = False,
) -> None:
    """Run a local chain with contracts and traffic until Ctrl-C.

    With --chaos, the configuration names two faulty endpoints that forward requests to the chain
    and sometimes return wrong responses: missing or moved logs, stale, null or unlinked blocks,
    error formats of many vendors, truncated responses, rate limits. Each fault is printed when it
    begins. Despite these faults, the daemon must reach the same state as a daemon that reads the
    chain directly.
    """
    stop = StopSignal()
    devnet_folder = folder.resolve()
    cleanup_text = f"the chain is stopped; the folder with its keys remains: {devnet_folder}"
    with _report_interruption(stop, cleanup_text), listen_for_signals(stop, _STOP_SIGNALS):
        options = LocalNetworkOptions(port, block_seconds, chaos, stop.event)
        if as_json:
            options = replace(
                options, on_ready=lambda endpoints: typer.echo(json.dumps(endpoints))
            )
        run_devnet(devnet_folder, options, lambda text: typer.echo(text, err=True))
