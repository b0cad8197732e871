"""Implements `proof`, which prints and checks the Merkle proof of a node's score in a round."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.qos_roots import RootsContract
from oracle.chain.proofs.keccak import keccak
from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    JsonOption,
    NodeArgument,
    load_config,
    print_model,
)
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.compose import serialize_configured_rules
from oracle.daemon.config.loader import Config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import open_report_account
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.durable_files import replace_file
from oracle.errors import FatalError, InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.round_leaves import LeafCache
from oracle.queries.evidence_bundle import EvidenceBundle, build_evidence_bundle
from oracle.queries.node_proof import (
    ContractRoot,
    NodeProofDetail,
    OnChainProofDetail,
    prove_node,
)
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
        max=MAX_STORED_NUMBER,
        help="Round in which the score is proven. Default: the newest accepted round.",
    ),
]

_OnchainOption = Annotated[
    bool,
    typer.Option(
        "--onchain",
        help="Check the proof against the root that the contract has at the newest block.",
    ),
]

_BundleOption = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        metavar="FILE",
        help="Also write the evidence bundle, which the page /verify checks, to this file.",
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
    onchain: _OnchainOption = False,
    bundle_path: _BundleOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the Merkle proof of a node's score in a round.

    For a full address that is not a node, the proof shows that the address has no score. Exit code
    1 if `--onchain` finds another root or no root in the contract; in this case no bundle is
    written.
    """
    loaded_config = load_config(config)
    with open_folded_records(loaded_config) as records:
        with records.store.read_transaction() as uow:
            address = find_node(uow, node)
        reader = open_reader(records.config)
        cache = LeafCache()
        archive = EventArchive(records.store, reader, records.rules)
        proof_detail = prove_node(archive, cache, address, round_number)
        bundle = None
        if bundle_path is not None:
            rules_id = serialize_configured_rules(records.config, reader)
            bundle = build_evidence_bundle(
                archive, cache, address, proof_detail.summary.round, rules_id
            )
            _check_proof(bundle.proof)
    _check_proof(proof_detail)
    if onchain:
        proof_detail = _add_on_chain_root(loaded_config, proof_detail)
    has_different_root = (
        isinstance(proof_detail, OnChainProofDetail)
        and proof_detail.contract_root.root != proof_detail.root
    )
    if bundle_path is not None and bundle is not None and not has_different_root:
        _write_evidence_bundle(bundle_path, bundle)
    if as_json:
        print_model(proof_detail)
    else:
        print_facts(_render_proof_facts(proof_detail), _NAME_WIDTH)
        typer.echo(_describe_root_check(proof_detail))
    if has_different_root:
        raise typer.Exit(1)


def _write_evidence_bundle(path: Path, bundle: EvidenceBundle) -> None:
    try:
        with replace_file(path) as temporary_path:
            temporary_path.write_text(bundle.model_dump_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot write the bundle: {error.strerror}") from error


def _add_on_chain_root(config: Config, detail: NodeProofDetail) -> OnChainProofDetail:
    """Add the root that the contract has for the proof's round."""
    with open_checked_chain(config) as chain:
        pool_view = open_report_account(config, chain).pool_view
        contract = RootsContract(pool_view, Address(detail.summary.oracle))
        block, root = contract.fetch_root(detail.summary.round)
    contract_root = ContractRoot(block=block.number, block_hash=block.hash, root=root)
    return OnChainProofDetail(**dict(detail), contract_root=contract_root)


def _describe_root_check(detail: NodeProofDetail) -> str:
    round_number = detail.summary.round
    if not isinstance(detail, OnChainProofDetail):
        return (
            "checked: leaf and proof lead to the root; compare it with the root that the contract "
            f"or another reporter has for round {round_number}"
        )
    contract_root = detail.contract_root
    contract_text = (
        f"contract {detail.summary.oracle} at block {contract_root.block} "
        f"{contract_root.block_hash}"
    )
    if contract_root.root is None:
        return f"NOT checked on chain: the {contract_text} has no root of round {round_number}"
    if contract_root.root != detail.root:
        return (
            f"DIFFERENT: the {contract_text} has the root {contract_root.root} for round "
            f"{round_number}"
        )
    return (
        f"checked on chain: leaf and proof lead to the root that the {contract_text} has for "
        f"round {round_number}"
    )


def _check_proof(detail: NodeProofDetail) -> None:
    """Check the proof as a contract does, so that every printed proof is valid on chain."""
    leaf_hash = hash_leaf(_parse_hex(detail.leaf.encoded), keccak)
    root = compute_root(leaf_hash, [_parse_hex(text) for text in detail.proof], keccak)
    if root != _parse_hex(detail.root):
        raise FatalError(
            f"the proof of {detail.address} leads to 0x{root.hex()} and not to the root of round "
            f"{detail.summary.round}, {detail.root}; please report this"
        )


def _render_proof_facts(detail: NodeProofDetail) -> Iterator[tuple[str, str]]:
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
