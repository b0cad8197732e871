"""`explain`: why a node has its score, as a summary, as reasons by cost, or in full.

The JSON answer is in queries.explanation_view, the text of `--full` in explain_full.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated

import typer

from oracle.chain.source import ChainSource
from oracle.cli.inspect.explain_full import full_lines, on_chain_line
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    NodeArgument,
    load_config,
    print_answer,
)
from oracle.daemon.compose import check_chain_of, open_index, open_reader
from oracle.daemon.records import Records, open_folded_records
from oracle.domain.blocks import BlockRef
from oracle.domain.feed_rows import is_of_feed
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.api.node_order import NodeOrder, NodeRanking
from oracle.queries.explain import (
    EventArchive,
    Explanation,
    as_of_round,
    block_at,
    explain as explain_node,
)
from oracle.queries.explanation_view import explanation_view
from oracle.queries.sentences.node_sentences import NodeStanding, details, headline, lifted
from oracle.queries.sentences.node_standing import standing_as_of
from oracle.queries.sentences.score_costs import reasons
from oracle.queries.text.human_numbers import two_digits
from oracle.queries.text.prefixes import node_named
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import print_table

_AtOption = Annotated[
    int | None, typer.Option("--at", metavar="BLOCK", min=0, help="As of this block.")
]
_RoundOption = Annotated[
    int | None,
    typer.Option("--round", metavar="R", min=1, help="As of the block that round R speaks of."),
]
_FullOption = Annotated[
    bool,
    typer.Option("--full", help="Every task score and every change, each with its log."),
]


def register(app: typer.Typer) -> None:
    """Register `explain` on the command line."""
    app.command("explain", epilog="Example: qos-oracle explain 0xfabb --round 12 --full")(explain)


def explain(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    at: _AtOption = None,
    of_round: _RoundOption = None,
    full: _FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Explain a node's score: the verdict, then the largest deductions."""
    if at is not None and of_round is not None:
        raise InputError("--at and --round name two blocks; give one of them")
    with open_folded_records(load_config(config)) as records:
        number = at if of_round is None else as_of_round(records.store, of_round)
        as_of = _block(records, number)
        with records.store.reading() as uow:
            address = node_named(uow, node)
        min_scores = records.config.oracle.min_scores
        reader = open_reader(records.config)
        archive = EventArchive(records.store, reader, records.rules, min_scores)
        told = explain_node(archive, address, as_of)
        ranking = None if as_json or full else _ranking(records, told)
    if as_json:
        labels = {Address(at): name for at, name in records.config.network.labels.items()}
        print_answer(explanation_view(told, labels))
        return
    if full:
        for line in full_lines(told):
            typer.echo(line)
        return
    _print_answer(told, standing_as_of(told, ranking))


def _block(records: Records, number: int | None) -> BlockRef:
    """Return this block, or the last folded one; query the chain only if needed."""
    with ExitStack() as closing:

        def open_checked_chain() -> ChainSource:
            return check_chain_of(closing.enter_context(open_index(records)))

        return block_at(open_checked_chain, records.store, number)


def _ranking(records: Records, told: Explanation) -> NodeRanking | None:
    """Return the ranking of all nodes at the cursor, or None if an earlier block is explained."""
    with records.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or cursor.number != told.as_of.number:
            return None
        return NodeOrder(records.rules).at(uow, cursor)


def _print_answer(told: Explanation, standing: NodeStanding) -> None:
    qos = told.figures.qos
    typer.echo(f"{'out' if qos is None else two_digits(qos):<4}  {headline(standing)}")
    for sentence in (details(standing), lifted(standing)):
        if sentence:
            typer.echo(f"      {sentence}")
    costly = reasons(told, standing)
    if costly:
        typer.echo()
        rows = [[f"-{two_digits(one.costs)}", one.words] for one in costly]
        print_table(("costs", "why"), rows, ("why",))
    typer.echo()
    for line in _about(told):
        typer.echo(line)


def _about(told: Explanation) -> Iterator[str]:
    rules = f"{told.rules.name} version {told.rules.version}"
    yield f"node {told.node.address}, {told.figures.status.replace('_', ' ')}"
    yield f"as of block {told.as_of.number}, {shown_time(told.as_of.time)}; rules {rules}"
    yield on_chain_line(told, told.on_chain)
    if any(is_of_feed(entry.at) for entry in told.scores):
        yield "UNPROVEN: this rests on a feed; `qos-oracle status` says how it stands"
    derived = sum(entry.is_derived for entry in told.scores)
    if derived:
        yield f"{derived} of its scores are zeros derived for timed-out members of groups"
    if told.possible_zeros:
        own = told.figures.long_term
        yield (
            f"{len(told.possible_zeros)} zeros more are possible, which no row tells: "
            f"Q_long between {told.lowest_long_term / UNIT:.4f} and {own / UNIT:.4f}"
        )
    yield "--full shows each score and each change with its transaction and log"
