"""Implements `explain`, which prints why a node has its score, briefly or in full detail.

The JSON result is built in queries.explanation_view, and the text of `--full` in explain_full.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.cli.inspect.explain_full import render_full_explanation, render_on_chain_score_line
from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    JsonOption,
    NodeArgument,
    configure_log_output,
    print_model,
)
from oracle.daemon.config.loader import read_config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import Records, open_folded_records
from oracle.domain.blocks import BlockRef
from oracle.domain.feed_rows import is_feed_position
from oracle.domain.fixed_point import format_decimal
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.queries.api.node_order import NodeRanking, NodeRankingCache
from oracle.queries.explain import (
    Explanation,
    explain_score,
    find_as_of_block,
    resolve_block,
)
from oracle.queries.explanation_view import build_explanation_view
from oracle.queries.incident_models import describe_incident, format_marked_timeouts
from oracle.queries.node_models import build_qos_interval
from oracle.queries.node_sentences import (
    NodeSummary,
    format_headline,
    format_improvement,
    format_qos_interval,
    format_secondary_details,
)
from oracle.queries.node_standing import build_node_summary_from_explanation, compute_score_costs
from oracle.queries.text.human_numbers import format_count, format_two_decimals
from oracle.queries.text.prefixes import find_node
from oracle.queries.text.text_tables import format_block_time, print_table

if TYPE_CHECKING:
    from oracle.chain.source import ChainSource

_AtBlockOption = Annotated[
    int | None,
    typer.Option(
        "--at",
        metavar="BLOCK",
        min=0,
        help="Block at which the score is explained. Default: the last folded block.",
    ),
]
_RoundOption = Annotated[
    int | None,
    typer.Option(
        "--round",
        metavar="R",
        min=1,
        max=MAX_STORED_NUMBER,
        help="Round whose as-of block is explained.",
    ),
]
_FullOption = Annotated[
    bool,
    typer.Option(
        "--full",
        help="Show every task score and every reliability change with its transaction and log.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("explain", epilog="Example: qos-oracle explain 0xfabb --round 12 --full")(explain)


def explain(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    at_block: _AtBlockOption = None,
    round_number: _RoundOption = None,
    full: _FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Explain a node's score, the largest deductions first."""
    if at_block is not None and round_number is not None:
        raise InputError("--at and --round: mutually exclusive; give one")
    with open_folded_records(read_config(config)) as records:
        block_number = (
            at_block if round_number is None else find_as_of_block(records.store, round_number)
        )
        as_of = _find_block(records, block_number)
        with records.store.read_transaction() as uow:
            address = find_node(uow, node)
        reader = open_reader(records.config)
        terms = records.config.objections.terms
        archive = EventArchive(records.store, reader, records.rules, objection_terms=terms)
        explanation = explain_score(archive, address, as_of)
        ranking = None if as_json or full else _load_node_ranking(records, explanation)
    if as_json:
        labels = records.config.network.label_by_address
        print_model(build_explanation_view(explanation, labels))
        return
    if full:
        for line in render_full_explanation(explanation, reader.profile.token):
            typer.echo(line)
        return
    _print_explanation(explanation, build_node_summary_from_explanation(explanation, ranking))


def _find_block(records: Records, block_number: int | None) -> BlockRef:
    """Return the block with this number, by default the last folded block.

    The chain is queried only if the header of the block is not stored.
    """
    with ExitStack() as stack:

        def open_checked_chain() -> "ChainSource":
            from oracle.daemon.compose import (  # noqa: PLC0415  slow; most blocks are stored
                get_checked_chain,
                open_index,
            )

            configure_log_output(records.config)
            return get_checked_chain(stack.enter_context(open_index(records)))

        return resolve_block(open_checked_chain, records.store, block_number)


def _load_node_ranking(records: Records, explanation: Explanation) -> NodeRanking | None:
    """Return the ranking of all nodes, if the explained block is the cursor's block."""
    with records.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None or cursor.number != explanation.as_of.number:
            return None
        return NodeRankingCache(records.rules).get_ranking(uow, cursor)


def _print_explanation(explanation: Explanation, node_summary: NodeSummary) -> None:
    qos = explanation.node_scores.qos
    typer.echo(
        f"{'-' if qos is None else format_two_decimals(qos):<4}  {format_headline(node_summary)}"
    )
    sentences = (
        _describe_qos_interval(explanation),
        format_secondary_details(node_summary),
        format_improvement(node_summary),
    )
    for sentence in sentences:
        if sentence:
            typer.echo(f"      {sentence}")
    cost_reasons = compute_score_costs(explanation, node_summary)
    if cost_reasons:
        typer.echo()
        cost_rows = [
            [f"-{format_two_decimals(cost_reason.amount)}", cost_reason.cause]
            for cost_reason in cost_reasons
        ]
        print_table(("costs", "why"), cost_rows, ("why",))
    marks = explanation.timeout_marks
    if marks.incidents:
        typer.echo()
        typer.echo(
            f"{format_marked_timeouts(len(marks.incident_by_position))}; scores do not change:"
        )
        for incident in marks.incidents:
            start_time_text = format_block_time(incident.since)
            typer.echo(
                f"  incident {incident.number}, since {start_time_text}: "
                f"{describe_incident(incident)}"
            )
    typer.echo()
    for line in _render_footer(explanation):
        typer.echo(line)


def _describe_qos_interval(explanation: Explanation) -> str | None:
    """Describe the QoS interval and the number of scores, or return None if there are none."""
    interval = build_qos_interval(explanation.node, explanation.as_of.time, explanation.rules)
    if interval is None:
        return None
    score_count_text = format_count(len(explanation.pool), "score")
    return (
        f"The QoS is {format_qos_interval(interval)} at a confidence of 90 %, from "
        f"{score_count_text}."
    )


def _render_footer(explanation: Explanation) -> Iterator[str]:
    rules_title = f"{explanation.rules.name} version {explanation.rules.version}"
    yield f"node {explanation.node.address}, {explanation.node_scores.status.replace('_', ' ')}"
    yield (
        f"as of block {explanation.as_of.number}, {format_block_time(explanation.as_of.time)}; "
        f"rules {rules_title}"
    )
    yield render_on_chain_score_line(explanation, explanation.on_chain_lane)
    if any(is_feed_position(entry.at) for entry in explanation.scores):
        yield "UNPROVEN: based on a feed without proofs; see `qos-oracle status`"
    derived_count = sum(entry.is_derived for entry in explanation.scores)
    if derived_count:
        yield f"{derived_count} scores are zeros derived for timed-out members of groups"
    if explanation.possible_zeros:
        long_term = explanation.node_scores.long_term
        yield (
            f"{len(explanation.possible_zeros)} more zeros are possible but in no row: Q_long is "
            f"between {format_decimal(explanation.min_long_term_score, 4)} and "
            f"{format_decimal(long_term, 4)}"
        )
    yield "--full lists every score and change with its transaction and log"
