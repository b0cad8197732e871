"""The verdict of the demo: on-chain scores beside a replay, and why a node was kicked out."""

from pathlib import Path

from rich.console import Console

from devnet.demo.ending import Summary
from oracle.cli.options import load_config
from oracle.domain.ids import Address
from oracle.queries.explain import EventArchive, explain_score, resolve_block
from oracle.queries.sentences.node_sentences import format_details, format_headline
from oracle.queries.sentences.node_standing import build_summary_from_explanation
from oracle.queries.text.text_tables import format_table

_ETHER = 10**18
_QOS_STEPS = 10_000


def why_it_stands_so(configuration: Path, node: Address) -> str:
    """Return the explanation of a node's standing, as `explain` prints it.

    The explanation is as of the last block that the daemon has folded.
    """
    # Imported here because endpoints and clients would slow down `demo --help`.
    from oracle.daemon.compose import check_index_chain, open_index  # noqa: PLC0415
    from oracle.daemon.records import open_folded_records  # noqa: PLC0415

    with (
        open_folded_records(load_config(configuration)) as records,
        open_index(records) as index,
    ):
        as_of = resolve_block(lambda: check_index_chain(index), index.store, None)
        told = explain_score(EventArchive(index.store, index.reader, index.rules), node, as_of)
    standing = build_summary_from_explanation(told)
    return f"{format_headline(standing)} {format_details(standing)}".strip()


def print_verdict(summary: Summary, why: str, console: Console) -> None:
    """Print the verdict as text; `reason` is the explanation of the hopeless node."""
    console.print("What the chain says, beside a replay of its logs", style="bold")
    for line in _rows(summary):
        console.print(line, style="bold red" if line.endswith(" NO") else None)
    for line in _lines(summary, why):
        console.print(line, soft_wrap=True)
    if summary.holds:
        console.print("Everything holds.", style="bold green")
        return
    console.print("It does not hold:", style="bold red")
    for fault in summary.faults:
        console.print(f"  {fault}", style="red", soft_wrap=True)


def _rows(summary: Summary) -> list[str]:
    columns = ("node", "selectable", "QoS on chain", "equals the replay")
    ranked = sorted(summary.nodes, key=lambda node: -node.qos)
    rows = [
        (
            node.name,
            "yes" if node.selectable else "no",
            f"{node.qos / _QOS_STEPS:.4f}",
            "yes" if node.equal else "NO",
        )
        for node in ranked
    ]
    return format_table(columns, rows)


def _lines(summary: Summary, why: str) -> list[str]:
    draws, kickout, contest = summary.draws, summary.kickout, summary.contest
    played = f"{summary.blocks} blocks, {summary.chain_seconds // 60} minutes of chain time"
    refused = "accepted" if kickout.rejoin == "accepted" else f"refused, {kickout.rejoin}"
    went = "hopeless" if kickout.executed_in is None else "why hopeless went"
    return [
        f"{played}, {summary.events} events, {summary.rounds} reports accepted",
        f"{draws.started} tasks given out, {draws.agree} to the node that the chain's hashes drew",
        f"darwin lied once; second group: {', '.join(contest.second_group) or 'none'}",
        f"settled in {contest.settled_in or 'no transaction'}",
        f"stake slashed: {contest.slashed // _ETHER} ether",
        f"{went}: {why}",
        f"kickout executed in {kickout.executed_in or 'no transaction'}",
        f"stake withdrawn: {kickout.withdrawn // _ETHER} ether",
        f"re-join of the kicked-out node: {refused}",
    ]
