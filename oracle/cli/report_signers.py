"""Implements `report signers`, which compares all reporters' statements about a round."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Annotated

import typer

from oracle.bindings.qos_roots import RootsContract, RootsStatus
from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.config.loader import Config
from oracle.daemon.records import open_records
from oracle.daemon.senders import get_oracle_address, open_report_account
from oracle.domain.ids import Address, Hash
from oracle.queries.report_models import RoundSignature, RoundSignatures, SignatureState
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, print_table, shorten_hash
from oracle.quorum.collector import build_signed_statement
from oracle.quorum.peer_client import Peer, PeerResult
from oracle.quorum.wire_format import ReportMessage
from oracle.store.database import Store
from oracle.store.outbox.records import SignedStatement

_OWN_NAME, _STORED_NAME = "this reporter", "received earlier"
_STATE_BY_RESULT = {
    PeerResult.GENUINE: SignatureState.NOT_SIGNED,
    PeerResult.FORGED: SignatureState.INVALID,
    PeerResult.MALFORMED: SignatureState.INVALID,
    PeerResult.NO_RESPONSE: SignatureState.NO_RESPONSE,
}


def show_signers(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    round_number: Annotated[
        int | None,
        typer.Option(
            "--round",
            min=1,
            max=MAX_STORED_NUMBER,
            metavar="N",
            help=("Number of the round. Default: the round that is signed next."),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which reporters signed a round, which are missing, and which differ.

    Reads the signers from the contract, and requests the statement of every peer in `[reporters]`.
    Exit code 1 if a statement differs.
    """
    loaded_config = load_config(config)
    get_oracle_address(loaded_config)
    with open_records(loaded_config) as records, open_checked_chain(loaded_config) as chain:
        account = open_report_account(loaded_config, chain)
        status = RootsContract(account.pool_view, account.domain.contract).fetch_status()
        number = round_number or status.head.round + 1
        comparison = _compare_round_statements(loaded_config, records.store, status, number)
    if as_json:
        print_model(comparison)
    else:
        _print_signature_comparison(comparison)
    if any(entry.state is SignatureState.DIFFERS for entry in comparison.signatures):
        raise typer.Exit(1)


def _compare_round_statements(
    config: Config, store: Store, status: RootsStatus, number: int
) -> RoundSignatures:
    statements, silent_peers = _collect_round_statements(config, store, number)
    signers_by_digest = defaultdict[Hash, set[Address]](set)
    for _, statement in statements:
        if statement.signer in status.signers:
            signers_by_digest[statement.digest].add(statement.signer)
    # On a tie, the digest of this reporter wins, because it comes first.
    agreed_digest = max(
        signers_by_digest, key=lambda key: len(signers_by_digest[key]), default=None
    )
    known_signers = {statement.signer for _, statement in statements}
    return RoundSignatures(
        round=number,
        is_accepted=number <= status.head.round,
        quorum=status.head.quorum,
        agreeing=0 if agreed_digest is None else len(signers_by_digest[agreed_digest]),
        signatures=[
            *(_build_entry(name, entry, status, agreed_digest) for name, entry in statements),
            *silent_peers,
            *(
                _build_silent_entry("", SignatureState.NOT_SIGNED, signer)
                for signer in status.signers
                if signer not in known_signers
            ),
        ],
    )


def _collect_round_statements(
    config: Config, store: Store, number: int
) -> tuple[list[tuple[str, SignedStatement]], list[RoundSignature]]:
    """Return each reporter's newest statement, and an entry for each reporter without one."""
    contract = get_oracle_address(config)
    with store.read_transaction() as uow:
        own_statements = uow.statements.list_for_round(contract, number)
        received_statements = uow.peer_statements.list_for_round(contract, number)
    live_statements = [
        statement for statement in own_statements if statement.expiry_reason is None
    ]
    statements = [(_OWN_NAME, live_statements[0])] if live_statements else []
    silent_entries = (
        [] if live_statements else [_build_silent_entry(_OWN_NAME, SignatureState.NOT_SIGNED)]
    )
    for name, result, messages in _fetch_peer_messages(config, number):
        newest_by_signer = {
            message.signer: (name, build_signed_statement(message))
            for message in reversed(messages)
            if (message.chain_id, message.contract, message.round)
            == (config.chain.id, contract, number)
        }
        statements += newest_by_signer.values()
        if not newest_by_signer:
            silent_entries.append(_build_silent_entry(name, _STATE_BY_RESULT[result]))
    known_signers = {statement.signer for _, statement in statements}
    received_by_signer = {entry.signer: entry for entry in reversed(received_statements)}
    statements += [
        (_STORED_NAME, statement)
        for signer, statement in received_by_signer.items()
        if signer not in known_signers
    ]
    return statements, silent_entries


def _fetch_peer_messages(
    config: Config, number: int
) -> list[tuple[str, PeerResult, list[ReportMessage]]]:
    reporters_section = config.reporters
    with ExitStack() as stack:
        peers = [
            stack.enter_context(
                closing(
                    Peer(url, reporters_section.timeout_seconds, reporters_section.http_access)
                )
            )
            for url in reporters_section.peers
        ]
        if not peers:
            return []
        with ThreadPoolExecutor(len(peers)) as executor:
            responses = executor.map(lambda peer: peer.fetch_response(number), peers)
            return [
                (peer.name, *response) for peer, response in zip(peers, responses, strict=True)
            ]


def _build_entry(
    name: str, statement: SignedStatement, status: RootsStatus, agreed_digest: Hash | None
) -> RoundSignature:
    state = SignatureState.AGREES if statement.digest == agreed_digest else SignatureState.DIFFERS
    if statement.signer not in status.signers:
        state = SignatureState.UNKNOWN_SIGNER
    return RoundSignature(
        reporter=name,
        state=state,
        signer=statement.signer,
        as_of=statement.as_of_block,
        root=statement.root,
        config=statement.config,
    )


def _build_silent_entry(
    name: str, state: SignatureState, signer: Address | None = None
) -> RoundSignature:
    return RoundSignature(
        reporter=name, state=state, signer=signer, as_of=None, root=None, config=None
    )


def _print_signature_comparison(comparison: RoundSignatures) -> None:
    acceptance_text = "accepted" if comparison.is_accepted else "not accepted yet"
    typer.echo(
        f"round {comparison.round}, {acceptance_text}: {comparison.agreeing} signers agree, "
        f"{comparison.quorum} needed"
    )
    print_table(
        ("reporter", "signer", "state", "as of block", "root", "configuration"),
        [
            [
                entry.reporter or "no peer in [reporters]",
                _shorten_or_dash(entry.signer),
                entry.state.value,
                "-" if entry.as_of is None else str(entry.as_of),
                _shorten_or_dash(entry.root),
                _shorten_or_dash(entry.config),
            ]
            for entry in comparison.signatures
        ],
        left_columns=("reporter", "signer", "state", "root", "configuration"),
        width=WIDE_TABLE_WIDTH,
    )


def _shorten_or_dash(hash_or_address: str | None) -> str:
    return "-" if hash_or_address is None else shorten_hash(hash_or_address)
