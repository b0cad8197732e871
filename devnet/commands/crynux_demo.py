"""Implements `demo --network`, which runs the demo with stand-ins for Crynux's contracts."""

import typer
from rich.console import Console

from devnet.crynux.crynux_show import CrynuxSummary, start_crynux_demo
from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, DemoOptions
from oracle.errors import FatalError
from oracle.queries.text.text_tables import print_table


def run_crynux_demo(profile: str, options: DemoOptions, *, keep: bool, as_json: bool) -> None:
    """Run the demo of a profile and print its verdict.

    Raises:
        FatalError: a check failed, or the user stopped the demo.
        InputError: the profile has no stand-in contracts.
    """
    console = Console(stderr=True)
    with (
        Screen(console, start=START_TIME) as screen,
        start_crynux_demo(screen, profile, options) as (show, daemon, addresses),
    ):
        show.run_until_kickout(daemon, options)
        summary = show.wait_and_verify_scores(daemon, options)
        screen.close()
        _print_summary(summary, as_json=as_json)
        if keep:
            for name, address in addresses.items():
                screen.print_line(f"{name:8} {address}")
            screen.print_line("the network keeps running; press Ctrl-C to stop it")
            show.run_until_stopped(daemon)
        daemon.stop()
    if not summary.has_passed:
        raise FatalError("the demo failed: " + "; ".join(summary.faults))


def _print_summary(summary: CrynuxSummary, *, as_json: bool) -> None:
    if as_json:
        typer.echo(summary.to_json())
        return
    console = Console(highlight=False)
    _print_node_table(summary)
    console.print(f"{summary.blocks} blocks, {summary.events} events of {summary.profile}")
    for transaction in summary.put_out_in:
        console.print(f"kicked out through the adapter, stake returned, in {transaction}")
    for fault in summary.faults:
        console.print(f"  {fault}", style="red", soft_wrap=True)
    if summary.has_passed:
        console.print("All checks passed.", style="bold green")


def _print_node_table(summary: CrynuxSummary) -> None:
    typer.echo("The daemon's scores, compared with a replay of the chain's events")
    columns = (
        *("node", "state", "QoS", "due to be kicked out", "proven on chain"),
        "equals the replay",
    )
    rows = [
        (
            node.name,
            node.status,
            (node.qos or "-")[:6],
            "yes" if node.is_due else "no",
            "-" if node.proven is None else "yes" if node.proven else "NO",
            "yes" if node.equal else "NO",
        )
        for node in sorted(summary.nodes, key=lambda node: node.qos or "", reverse=True)
    ]
    print_table(columns, rows, left_columns=("state",))
