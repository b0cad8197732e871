"""Implements `advice`, which prints forecasts for a node, and what would improve them."""

import typer

from oracle.chain.profiles.profile import Token
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    NodeArgument,
    load_config,
    print_model,
)
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_folded_records
from oracle.daemon.startup import build_api_source
from oracle.errors import InputError
from oracle.queries.advice.advice_record import load_advice_record
from oracle.queries.advice.advice_sentences import (
    GPU_TITLES,
    LOSS_TITLES,
    WHAT_IF_TITLES,
    WORK_TITLES,
    describe_kickout_outlook,
    explain_gpu_comparison,
    explain_what_if,
    explain_work_share,
    format_gpu_rows,
    format_lost_earnings_rows,
    format_what_if_rows,
    format_work_share_rows,
    summarize_earnings,
    summarize_todays_losses,
    summarize_work_share,
)
from oracle.queries.advice.node_advice import NodeAdvice, build_node_advice
from oracle.queries.api.source import open_snapshot
from oracle.queries.text.prefixes import find_node
from oracle.queries.text.text_tables import format_block_time, print_table


def register(app: typer.Typer) -> None:
    """Register `advice` on the command line."""
    app.command("advice", epilog="Example: qos-oracle advice 0xfabb --json")(print_advice)


def print_advice(
    node: NodeArgument, config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """Show when a kickout is due, and what would raise the QoS."""
    with open_folded_records(load_config(config)) as records:
        source = build_api_source(records, open_reader(records.config), lambda: None)
        with open_snapshot(source) as snapshot:
            address = find_node(snapshot.uow, node)
            row = snapshot.get_ranking().nodes.get(address)
            if row is None:
                raise InputError(
                    f"{address}: no event refers to this node; `qos-oracle nodes` lists all nodes"
                )
            advice = build_node_advice(snapshot, load_advice_record(snapshot, row))
    if as_json:
        print_model(advice)
    else:
        _print_advice(advice, source.token)


def _print_advice(advice: NodeAdvice, token: Token) -> None:
    typer.echo(describe_kickout_outlook(advice))
    if advice.what_if is not None:
        typer.echo()
        cells = format_what_if_rows(advice.what_if, token)
        print_table(WHAT_IF_TITLES, cells, WHAT_IF_TITLES[:1])
        typer.echo(explain_what_if(advice.what_if))
        typer.echo()
        gpu_cells = format_gpu_rows(advice.what_if, token)
        print_table(GPU_TITLES, gpu_cells, GPU_TITLES[:1])
        typer.echo(explain_gpu_comparison(advice.what_if))
    if advice.work is not None:
        typer.echo()
        typer.echo(summarize_work_share(advice.work))
        print_table(WORK_TITLES, format_work_share_rows(advice.work), WORK_TITLES[:1])
        typer.echo(explain_work_share(advice.work))
    typer.echo()
    typer.echo(summarize_earnings(advice.money, token))
    losses_today = summarize_todays_losses(advice.money, token)
    if losses_today is not None:
        typer.echo(losses_today)
    if advice.money.losses:
        print_table(LOSS_TITLES, format_lost_earnings_rows(advice.money, token), LOSS_TITLES[:1])
        typer.echo(advice.money.assumption)
    typer.echo()
    as_of = advice.as_of
    typer.echo(f"node {advice.node}")
    typer.echo(f"as of block {as_of.block}, {format_block_time(as_of.time)}")
