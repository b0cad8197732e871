"""`demo --network crynux-relay`: the demo on stand-ins of NodeStaking and of the relay."""

import typer
from rich.console import Console

from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, ShowOptions
from devnet.relay.relay_show import RelaySummary, relay_show
from oracle.errors import FatalError
from oracle.queries.text.text_tables import print_table


def play_relay(options: ShowOptions, *, as_json: bool) -> None:
    """Run the relay demo and print its verdict.

    Raises:
        FatalError: a check failed, or the user stopped the demo.
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
    _print_nodes(summary)
    if any(node.zeros for node in summary.nodes):
        console.print("zeros: derived for members that timed out, which no row names")
    if any(node.lowest < node.highest for node in summary.nodes):
        console.print("bound: what Q_long may be for scores that rows cannot tell")
    console.print(f"{summary.rows} rows of the relay, {summary.blocks} blocks of the chain")
    if summary.holds:
        console.print("Everything holds.", style="bold green")


def _print_nodes(summary: RelaySummary) -> None:
    typer.echo("What the daemon keeps, beside the relay's rows and its own figures")
    columns = ("node", "state", "Q_long", "relay's", "bound", "zeros", "H", "as rows", "audit")
    rows = [
        (
            node.name,
            node.status,
            f"{node.long_term:.4f}",
            f"{node.relays:.4f}",
            "exact" if node.lowest == node.highest else f"{node.lowest:.4f}-{node.highest:.4f}",
            str(node.zeros),
            f"{node.reliability:.4f}",
            "yes" if node.equal else "NO",
            node.audit,
        )
        for node in sorted(summary.nodes, key=lambda node: -node.long_term)
    ]
    print_table(columns, rows, left_columns=("state",))
