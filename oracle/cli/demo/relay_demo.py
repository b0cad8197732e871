"""`demo --network crynux-relay`: the show on stand-ins of NodeStaking and of the relay."""

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from oracle.devnet.demo.screen import Screen
from oracle.devnet.demo.show import START_TIME, ShowOptions
from oracle.devnet.relay.relay_show import RelaySummary, relay_show
from oracle.errors import FatalError


def play_relay(options: ShowOptions, *, as_json: bool) -> None:
    """Play it, and print its verdict.

    Raises:
        FatalError: it does not hold, or was broken off.
    """
    console = Console(stderr=True)
    with (
        Screen(console, start=START_TIME) as screen,
        relay_show(screen, options) as (show, running),
    ):
        show.play(running)
        summary = show.end()
        screen.close()
        running.stop()
    _print(summary, as_json=as_json)
    if not summary.holds:
        raise FatalError("the demo does not hold: " + "; ".join(summary.faults))


def _print(summary: RelaySummary, *, as_json: bool) -> None:
    if as_json:
        typer.echo(summary.to_json())
        return
    console = Console(highlight=False)
    console.print(_table(summary))
    if any(node.zeros for node in summary.nodes):
        console.print("zeros: of silent members, which no row tells; the audit assumes them")
    console.print(f"{summary.rows} rows of the relay, {summary.blocks} blocks of the chain")
    if summary.holds:
        console.print("Everything holds.", style="bold green")


def _table(summary: RelaySummary) -> Table:
    title = "What the daemon keeps, beside the relay's rows and its own figures"
    table = Table(title=title, title_style="bold", box=SIMPLE_HEAD)
    for name in ("node", "state", "Q_long", "relay's", "zeros", "H", "as rows", "audit"):
        is_word = name in ("node", "state")
        table.add_column(name, justify="left" if is_word else "right", no_wrap=is_word)
    for node in sorted(summary.nodes, key=lambda node: -node.long_term):
        theirs = "-" if node.theirs is None else f"{node.theirs:.4f}"
        equal = "[green]yes[/]" if node.equal else "[bold red]NO[/]"
        figures = (f"{node.long_term:.4f}", theirs, str(node.zeros), f"{node.reliability:.4f}")
        table.add_row(node.name, node.status, *figures, equal, node.audit)
    return table
