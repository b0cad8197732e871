"""Prints the verdict of the demo, after comparing proven scores with a replay of the chain."""

from pathlib import Path

from rich.console import Console

from devnet.demo.ending import DemoSummary
from devnet.demo.objector import ObjectionInApi
from oracle.cli.options import load_config
from oracle.domain.ids import Address
from oracle.queries.explain import explain_score, resolve_block
from oracle.queries.node_sentences import format_headline, format_secondary_details
from oracle.queries.node_standing import build_node_summary_from_explanation
from oracle.queries.text.text_tables import format_table

_ETHER = 10**18
_QOS_UNITS = 10_000


def explain_node_score(configuration: Path, node: Address) -> str:
    """Explain a node's score, as `qos-oracle explain` does.

    The explanation is as of the last block that the daemon has processed.
    """
    # Imported here, because these endpoints and clients would slow down `demo --help`.
    from oracle.daemon.compose import get_checked_chain, open_index  # noqa: PLC0415
    from oracle.daemon.records import open_folded_records  # noqa: PLC0415

    with (
        open_folded_records(load_config(configuration)) as records,
        open_index(records) as index,
    ):
        as_of = resolve_block(lambda: get_checked_chain(index), index.store, None)
        explanation = explain_score(index.archive, node, as_of)
    node_standing = build_node_summary_from_explanation(explanation)
    return f"{format_headline(node_standing)} {format_secondary_details(node_standing)}".strip()


def print_verdict(summary: DemoSummary, reason: str, console: Console) -> None:
    """Print the verdict of the demo as text.

    `reason` explains the score of the kicked-out node.
    """
    console.print(
        "The proof of each node, verified on chain, and a replay of the chain's logs", style="bold"
    )
    for line in _format_score_table(summary):
        console.print(line, style="bold red" if " NO" in line else None)
    for line in _format_result_lines(summary, reason):
        console.print(line, soft_wrap=True)
    if summary.has_passed:
        console.print("All checks passed.", style="bold green")
        return
    console.print("These checks failed:", style="bold red")
    for fault in summary.faults:
        console.print(f"  {fault}", style="red", soft_wrap=True)


def _format_score_table(summary: DemoSummary) -> list[str]:
    columns = ("node", "selectable", "QoS in its leaf", "proven on chain", "equals the replay")
    ranked_nodes = sorted(summary.nodes, key=lambda node: -node.qos)
    rows = [
        (
            node.name,
            "yes" if node.selectable else "no",
            f"{node.qos / _QOS_UNITS:.4f}",
            "yes" if node.proven else "NO",
            "yes" if node.equal else "NO",
        )
        for node in ranked_nodes
    ]
    return format_table(columns, rows)


def _format_decision(objection: ObjectionInApi) -> str:
    decision_text = objection.verdict or "not on chain"
    return f"{decision_text}, accepted by the operator" if objection.is_accepted else decision_text


def _format_result_lines(summary: DemoSummary, reason: str) -> list[str]:
    draws, kickout, contest = summary.draws, summary.kickout, summary.contest
    hot_set = summary.hot_set
    duration_text = f"{summary.blocks} blocks, {summary.chain_seconds // 60} minutes of chain time"
    rejoin_result = "accepted" if kickout.rejoin == "accepted" else f"refused, {kickout.rejoin}"
    second_group_text = ", ".join(contest.second_group) or "none"
    burst = summary.burst
    burst_lines = (
        []
        if burst is None
        else [f"one application failed: an incident marks {burst.marked} of its timeouts"]
    )
    objection_lines = [
        f"objection of {objection.name}: {_format_decision(objection)}; {objection.finding}"
        for objection in summary.objections
    ]
    return [
        f"{duration_text}, {summary.events} events, {summary.rounds} reports accepted",
        f"{draws.started} tasks started, {draws.agree} on the node drawn by a block hash",
        f"scores of {len(hot_set.readable)} nodes are in QoSWords, as of round {hot_set.round}",
        f"darwin submitted a false result; second group: {second_group_text}",
        f"settled in {contest.settled_in or 'no transaction'}",
        f"stake slashed: {contest.slashed // _ETHER} ether",
        *burst_lines,
        f"hopeless: {reason}",
        *objection_lines,
        f"accused by an account without a role in {kickout.accused_in or 'no transaction'}",
        f"kickout executed in {kickout.executed_in or 'no transaction'}",
        f"stake withdrawn: {kickout.withdrawn // _ETHER} ether",
        f"re-join of the kicked-out node: {rejoin_result}",
    ]
