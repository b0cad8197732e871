"""`proof`: prints the Merkle proof of a node's score in an accepted round, and checks it."""

from collections.abc import Iterator
from typing import Annotated

import typer

from oracle.chain.proofs.keccak import keccak
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    NodeArgument,
    load_config,
    print_model,
)
from oracle.daemon.compose import open_reader
from oracle.daemon.records import open_folded_records
from oracle.domain.fixed_point import format_decimal
from oracle.domain.roots.leaves import hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.errors import FatalError
from oracle.queries.explain import EventArchive
from oracle.queries.node_proof import NodeProofDetail, prove_node
from oracle.queries.round_leaves import LeafCache
from oracle.queries.text.human_numbers import format_count
from oracle.queries.text.prefixes import find_node
from oracle.queries.text.text_tables import format_block_time

# Decimals of a QoS on chain.
_DIGITS = 4

_RoundOption = Annotated[
    int | None,
    typer.Option(
        "--round",
        metavar="R",
        min=1,
        help="Round to prove the score in. Default: the newest accepted round.",
    ),
]


def register(app: typer.Typer) -> None:
    """Register `proof` on the command line."""
    app.command("proof", epilog="Example: qos-oracle proof 0xfabb --round 12 --json")(print_proof)


def print_proof(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    round_number: _RoundOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the Merkle proof of a node's score in a round.

    For a full address that is no node, the proof shows that the address has no score.
    """
    with open_folded_records(load_config(config)) as records:
        with records.store.read_transaction() as uow:
            address = find_node(uow, node)
        archive = EventArchive(
            records.store,
            open_reader(records.config),
            records.rules,
            records.config.oracle.min_scores,
        )
        detail = prove_node(archive, LeafCache(), address, round_number)
    _check_proof(detail)
    if as_json:
        print_model(detail)
        return
    for line in _render_lines(detail):
        typer.echo(line)


def _check_proof(detail: NodeProofDetail) -> None:
    """Check the proof as a contract does, so that none is printed that a contract rejects."""
    leaf_hash = hash_leaf(_parse_hex(detail.leaf.encoded), keccak)
    root = compute_root(leaf_hash, [_parse_hex(text) for text in detail.proof], keccak)
    if root != _parse_hex(detail.root):
        raise FatalError(
            f"the proof of {detail.address} leads to 0x{root.hex()} and not to the root of round "
            f"{detail.summary.round}, {detail.root}; please report this"
        )


def _render_lines(detail: NodeProofDetail) -> Iterator[str]:
    leaf, summary = detail.leaf, detail.summary
    yield f"round {summary.round}, as of block {summary.as_of}, chain {summary.chain_id}"
    yield f"root   {detail.root} of {format_count(summary.node_count, 'node')}"
    if detail.is_absent:
        yield f"node   {detail.address} has no score: no leaf lies between {leaf.node}"
        yield f"       and {leaf.next_node}, the next address with a leaf"
    else:
        yield f"node   {leaf.node}, seat {leaf.seat}: {_describe_leaf(detail)}"
    yield f"leaf   {leaf.encoded}"
    for index, sibling in enumerate(detail.proof):
        yield f"{'' if index else 'proof':<6} {sibling}"
    yield "checked: leaf and proof lead to the root"


def _describe_leaf(detail: NodeProofDetail) -> str:
    leaf = detail.leaf
    score = "do not select" if leaf.qos is None else f"QoS {format_decimal(leaf.qos, _DIGITS)}"
    due = (
        ""
        if leaf.kickout_due_since is None
        else f"; kickout due since {format_block_time(leaf.kickout_due_since)}"
    )
    return f"{score}, H {format_decimal(leaf.reliability, _DIGITS)}{due}"


def _parse_hex(text: str) -> bytes:
    return bytes.fromhex(text[2:])
