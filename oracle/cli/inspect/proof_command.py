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
from oracle.domain.roots.leaves import hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.errors import FatalError
from oracle.indexer.round_leaves import LeafCache
from oracle.queries.explain import EventArchive
from oracle.queries.node_proof import NodeProofDetail, prove_node
from oracle.queries.proof_sentences import describe_leaf, describe_summary
from oracle.queries.text.prefixes import find_node
from oracle.queries.text.text_tables import print_facts

_NAME_WIDTH = 19

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
        )
        detail = prove_node(archive, LeafCache(), address, round_number)
    _check_proof(detail)
    if as_json:
        print_model(detail)
        return
    print_facts(_render_facts(detail), _NAME_WIDTH)
    typer.echo(
        "checked: leaf and proof lead to the root; compare it with the root that the contract or "
        f"another reporter has for round {detail.summary.round}"
    )


def _check_proof(detail: NodeProofDetail) -> None:
    """Check the proof as a contract does, so that none is printed that a contract rejects."""
    leaf_hash = hash_leaf(_parse_hex(detail.leaf.encoded), keccak)
    root = compute_root(leaf_hash, [_parse_hex(text) for text in detail.proof], keccak)
    if root != _parse_hex(detail.root):
        raise FatalError(
            f"the proof of {detail.address} leads to 0x{root.hex()} and not to the root of round "
            f"{detail.summary.round}, {detail.root}; please report this"
        )


def _render_facts(detail: NodeProofDetail) -> Iterator[tuple[str, str]]:
    leaf, summary = detail.leaf, detail.summary
    if detail.is_absent:
        yield "address", detail.address
        yield "score", "none: no address between these two has a leaf"
        yield "leaf before", leaf.node
        yield "leaf after", leaf.next_node
    else:
        yield "node", detail.address
        yield from describe_leaf(leaf)
    yield "round", f"{summary.round}, as of block {summary.as_of}"
    yield "contract", f"{summary.oracle} on chain {summary.chain_id}"
    yield from describe_summary(summary)
    yield "root", detail.root
    yield "leaf", leaf.encoded
    for index, sibling in enumerate(detail.proof):
        yield "" if index else "proof", sibling


def _parse_hex(text: str) -> bytes:
    return bytes.fromhex(text[2:])
