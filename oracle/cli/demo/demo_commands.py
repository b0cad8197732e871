"""`demo`: the whole product on a local chain, and a verdict."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from oracle.cli.demo.crynux_demo import play_crynux
from oracle.cli.demo.relay_demo import play_relay
from oracle.cli.options import JsonOption
from oracle.daemon.stopping import StopSignal, listening
from oracle.devnet.demo.demo_system import DEMO_SYSTEMS, SEED_SYSTEM, DemoSystem
from oracle.devnet.demo.ending import Summary
from oracle.devnet.demo.screen import Screen
from oracle.devnet.demo.show import START_TIME, ShowOptions, show
from oracle.devnet.local_network import Options as DevnetOptions, devnet
from oracle.devnet.relay.relay_show import NETWORK as RELAY
from oracle.errors import FatalError, InputError

_PortOption = Annotated[
    int, typer.Option(help="The chain's port; 0 takes any free one.", min=0, max=65_535)
]
_OURS = "reference"
_ETHER = 10**18
_QOS_STEPS = 10_000
# A closed terminal ends it as Ctrl-C does: chain and daemon go along, however long that takes.
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def register(app: typer.Typer) -> None:
    """Hang the commands into the command line."""
    app.command("demo", epilog="Example: qos-oracle demo --json")(_demo)
    app.command("devnet", epilog="Example: qos-oracle devnet --folder devnet --port 8545")(_devnet)


def _demo(  # noqa: PLR0913 - a command line's options are its parameters
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running; Ctrl-C ends it.")
    ] = False,
    port: _PortOption = 0,
    waves: Annotated[
        int | None, typer.Option(help="At most so many waves of tasks.", min=1)
    ] = None,
    network: Annotated[
        str, typer.Option(metavar="PROFILE", help="Whose contracts: another profile's stand-ins.")
    ] = _OURS,
    system: Annotated[
        str, typer.Option(metavar="NAME", help=f"Which system: {', '.join(DEMO_SYSTEMS)}.")
    ] = SEED_SYSTEM.name,
    json_: JsonOption = False,
) -> None:
    """Show the whole product on a real local EVM chain, in about 90 seconds.

    Exit code 0 only if every score on chain equals the one that an independent process computes
    from the chain's logs, and the bad node was kicked out and took its stake.

    With --system legacy it is the network of 2024: groups of three nodes, drawn and started at
    once, text tasks on three of one card.

    With --network crynux-vss or crynux-commit the contracts are stand-ins of Crynux's, which know
    nothing of us: the daemon has to say what a process says that reads the whole chain by itself.
    It reports the scores of crynux-vss, and the bad node is put out through an adapter; those of
    crynux-commit it only reads. With crynux-relay the stakes are on the chain and everything else
    in a stand-in of the relay: the daemon reads both, and the relay is audited.
    """
    console, stop = Console(stderr=True), StopSignal()
    options = ShowOptions(_system(system, network), port=port, stop=stop.event)
    if waves is not None:
        options = replace(options, waves=waves)
    if network == RELAY:
        with listening(stop, _ENDS):
            play_relay(options, as_json=json_)
        return
    if network != _OURS:
        with listening(stop, _ENDS):
            play_crynux(network, options, keep=keep, as_json=json_)
        return
    with (
        _told_of_end(stop),
        listening(stop, _ENDS),
        Screen(console, start=START_TIME) as screen,
        show(screen, options) as (play, daemon, at),
    ):
        play.play(daemon, options)
        summary = play.end(daemon, options)
        screen.close()
        _print(summary, json_=json_)
        if keep:
            for name, address in at.items():
                screen.say(f"{name:8} {address}")
            screen.say("everything goes on; Ctrl-C ends it")
            play.idle(daemon)
        daemon.stop()
    if not summary.holds:
        raise FatalError("the demo does not hold: " + "; ".join(summary.faults))


def _system(name: str, network: str) -> DemoSystem:
    """Return the system of that name; stand-ins of Crynux's know their own alone."""
    if name not in DEMO_SYSTEMS:
        raise InputError(f"--system {name}: there is {', '.join(DEMO_SYSTEMS)}")
    if network != _OURS and name != SEED_SYSTEM.name:
        raise InputError(f"--system: is of our own contracts, not of those of {network}")
    return DEMO_SYSTEMS[name]


@contextmanager
def _told_of_end(stop: StopSignal) -> Iterator[None]:
    """Say what is gone where somebody ended it: the demo leaves nothing behind."""
    try:
        yield
    finally:
        if stop.reason is not None:
            gone = "chain and daemon are stopped, and their folder with keys is deleted"
            typer.echo(f"ended by {stop.reason}: {gone}", err=True)


def _devnet(
    *,
    folder: Annotated[
        Path, typer.Option(help="A new folder for keys and configuration.", metavar="DIR")
    ] = Path("devnet"),
    port: _PortOption = 8545,
    block_seconds: Annotated[
        float, typer.Option(help="Wall seconds from block to block.", min=0.01)
    ] = 1.0,
    chaos: Annotated[
        int | None,
        typer.Option(
            help="Put two faulty endpoints before the chain; this number draws their faults.",
            metavar="SEED",
            min=0,
        ),
    ] = None,
) -> None:
    """Run a local chain with contracts, nodes and traffic, to point a daemon at; until Ctrl-C.

    With --chaos the configuration names two endpoints that pass everything on to the chain and
    now and then lie for some requests: logs left out or moved, blocks behind, null or unlinked,
    errors of many vendors, broken bodies, throttling. Each fault is printed as it begins.
    Whatever they say, the daemon's state must be the one of a daemon that asks the chain itself.
    """
    stop = StopSignal()
    with listening(stop, _ENDS):
        options = DevnetOptions(port, block_seconds, chaos, stop.event)
        devnet(folder.resolve(), options, lambda text: typer.echo(text, err=True))


def _print(summary: Summary, *, json_: bool) -> None:
    if json_:
        typer.echo(summary.to_json())
        return
    console = Console(highlight=False)
    console.print(_table(summary))
    for line in _lines(summary):
        console.print(line, soft_wrap=True)
    if summary.holds:
        console.print("Everything holds.", style="bold green")
        return
    console.print("It does not hold:", style="bold red")
    for fault in summary.faults:
        console.print(f"  {fault}", style="red", soft_wrap=True)


def _table(summary: Summary) -> Table:
    title = "What the chain says, beside a replay of its logs"
    table = Table(title=title, title_style="bold", box=SIMPLE_HEAD)
    for name in ("node", "selectable", "QoS on chain", "equals the replay"):
        table.add_column(name, justify="left" if name == "node" else "right")
    for node in sorted(summary.nodes, key=lambda node: -node.qos):
        equal = "[green]yes[/]" if node.equal else "[bold red]NO[/]"
        selectable = "yes" if node.selectable else "no"
        table.add_row(node.name, selectable, f"{node.qos / _QOS_STEPS:.4f}", equal)
    return table


def _lines(summary: Summary) -> list[str]:
    draws, kickout = summary.draws, summary.kickout
    played = f"{summary.blocks} blocks, {summary.chain_seconds // 60} minutes of chain time"
    refused = "accepted" if kickout.rejoin == "accepted" else f"refused, {kickout.rejoin}"
    return [
        f"{played}, {summary.events} events, {summary.rounds} reports accepted",
        f"{draws.started} tasks given out, {draws.agree} to the node that the chain's hashes drew",
        f"kickout executed in {kickout.executed_in or 'no transaction'}",
        f"stake withdrawn: {kickout.withdrawn // _ETHER} ether",
        f"re-join of the kicked-out node: {refused}",
    ]
