"""Implements `demo --network crynux-relay`, which runs with a stand-in for the relay."""

import typer
from rich.console import Console

from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, DemoOptions
from devnet.relay.relay_show import RelaySummary, start_relay_demo
from oracle.errors import FatalError
from oracle.queries.text.text_tables import print_table


def run_relay_demo(options: DemoOptions, *, as_json: bool) -> None:
    """Run the relay demo and print its verdict.

    Raises:
        FatalError: a check failed, or the user stopped the demo.
    """
    console = Console(stderr=True)
    with (
        Screen(console, start=START_TIME) as screen,
        start_relay_demo(screen, options) as (show, daemon),
    ):
        show.run_until_folded(daemon)
        summary = show.verify_stored_state()
        screen.close()
        daemon.stop()
    _print_summary(summary, as_json=as_json)
    if not summary.has_passed:
        raise FatalError("the demo failed: " + "; ".join(summary.faults))


def _print_summary(summary: RelaySummary, *, as_json: bool) -> None:
    if as_json:
        typer.echo(summary.to_json())
        return
    console = Console(highlight=False)
    _print_node_table(summary)
    if any(node.zeros for node in summary.nodes):
        console.print(
            "zeros: scores of 0 derived for members that timed out; the relay publishes no row "
            "for them"
        )
    if any(node.lowest < node.highest for node in summary.nodes):
        console.print(
            "bound: possible range of Q_long, because some scores are not in the relay's rows"
        )
    console.print(f"{summary.rows} rows of the relay, {summary.blocks} blocks of the chain")
    if summary.has_passed:
        console.print("All checks passed.", style="bold green")


def _print_node_table(summary: RelaySummary) -> None:
    typer.echo("The daemon's figures, compared with the relay's rows and the relay's own figures")
    columns = (
        *("node", "state", "Q_long", "relay Q_long", "bound", "zeros", "H"),
        *("matches rows", "audit"),
    )
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
