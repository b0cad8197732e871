"""The `objection` commands, which list, answer and sign objections to kickouts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.objections import ObjectionsContract, encode_signed_objection_call
from oracle.chain.hex_names import parse_address
from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    DryRunOption,
    JsonOption,
    NodeArgument,
    load_config,
    print_model,
)
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.compose import Index, open_index
from oracle.daemon.config.loader import Config
from oracle.daemon.configured_keys import make_key_opener
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import open_report_account
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.domain.reports.objections import MAX_WORDS_BYTES, ObjectionReason
from oracle.errors import InputError
from oracle.queries.objection_models import (
    ObjectionAnswered,
    ObjectionEntry,
    SignedObjectionAnswer,
    build_objection_entries,
    describe_objection_state,
)
from oracle.queries.text.prefixes import find_node
from oracle.queries.text.text_tables import format_block_time, sanitize_text
from oracle.rpc.transport import BoundedHttp, redact_url
from oracle.signing.local import KeySigner
from oracle.signing.signer import SignerRefusedError
from oracle.signing.typed_data import AnswerStatement, Domain, ObjectionStatement
from oracle.store.database import UnitOfWork
from oracle.store.state.objection_repository import ObjectionAnswer

objection = typer.Typer(no_args_is_help=True)

_DEFAULT_LIMIT = 20
# Timeouts in seconds, until the first and until the last byte of the response.
_POST_SECONDS = (10.0, 30.0)
_MAX_RESPONSE_BYTES = 64 * 1024
_REASONS = ", ".join(reason.option for reason in ObjectionReason)


def register(app: typer.Typer) -> None:
    app.add_typer(
        objection,
        name="objection",
        help="List and answer objections to kickouts; sign one.",
    )


@objection.command("list", epilog="Example: qos-oracle objection list --json")
def list_objections(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=1,
            max=MAX_STORED_NUMBER,
            help="Maximum number of objections, newest first.",
        ),
    ] = _DEFAULT_LIMIT,
    as_json: JsonOption = False,
) -> None:
    """List objections to kickouts, newest first, with check and answer."""
    with _open_folded_index(config) as (index, uow):
        entries = build_objection_entries(
            uow, uow.objections.list_newest(limit), index.archive.kickout_policy
        )
    _print_objections(entries, as_json=as_json)


@objection.command("show", epilog="Example: qos-oracle objection show 0x…")
def show(
    node: NodeArgument, config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """Show all objections of a node, newest first."""
    with _open_folded_index(config) as (index, uow):
        objections = uow.objections.list_for_node(find_node(uow, node))
        entries = build_objection_entries(uow, objections, index.archive.kickout_policy)
    _print_objections(entries, as_json=as_json)


@objection.command(
    epilog='Example: qos-oracle objection answer 0x… --decline --reason "the log shows it"'
)
def answer(
    node: NodeArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    is_accepted: Annotated[
        bool,
        typer.Option(
            "--accept/--decline",
            help="Stop this reporter's kickout of the node, or continue the kickout.",
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Public reason of the answer.")
    ],
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a node's newest objection.

    After --accept, this reporter neither accuses nor executes this kickout. Other accounts still
    can; only the vetoer can end the kickout (`kickout veto`). After --decline, the daemon
    continues the kickout. The answer is signed if this host has the signer's key.
    """
    if not reason.strip():
        raise InputError("--reason: must not be empty")
    with open_folded_records(load_config(config)) as records:
        with records.store.read_transaction() as uow:
            newest_objection = _get_newest_objection(
                uow.objections.list_for_node(find_node(uow, node)), node
            )
        statement = AnswerStatement(
            newest_objection.node,
            newest_objection.due_since,
            is_accepted,
            reason.strip(),
            int(unix_seconds()),
        )
        unsigned_answer = ObjectionAnswer(*astuple(statement))
        signed_answer = (
            unsigned_answer
            if dry_run
            else sign_objection_answer(records.config, statement, unsigned_answer)
        )
        if not dry_run:
            # No lease is needed, because a running daemon reads answers but does not write them.
            with records.store.transaction() as uow:
                uow.objections.save_answer(signed_answer)
    result = ObjectionAnswered(
        node=newest_objection.node,
        due_since=newest_objection.due_since,
        is_accepted=is_accepted,
        because=reason.strip(),
        saved=not dry_run,
    )
    if as_json:
        print_model(result)
        return
    verb = "accepted" if is_accepted else "declined"
    typer.echo(
        f"objection {newest_objection.seq} of {newest_objection.node} "
        f"{'would be' if dry_run else 'is'} {verb}"
    )


def sign_objection_answer(
    config: Config, statement: AnswerStatement, unsigned_answer: ObjectionAnswer
) -> ObjectionAnswer:
    """Sign an answer to an objection with this reporter's key.

    The answer stays unsigned if no key is configured, or if the signer's policy refuses the
    answer.
    """
    signer = make_key_opener(config)("signer") if config.keys.has_key("signer") else None
    if signer is None or config.objections.address is None:
        return unsigned_answer
    domain = Domain(config.chain.id, Address(config.objections.address))
    try:
        signature = signer.sign_statement(statement, domain)
    except SignerRefusedError as error:
        typer.echo(f"the answer is not signed: {error}", err=True)
        return unsigned_answer
    return unsigned_answer._replace(signer=signer.address, signature=signature)


@objection.command(
    epilog="Example: qos-oracle objection sign --keystore node.json --password-file node.txt "
    '--due-since 1796000000 --reason application --text "the tasks of one customer hung"'
)
def sign(  # noqa: PLR0913  a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    keystore: Annotated[Path, typer.Option("--keystore", help="Keystore of the node's own key.")],
    password_file: Annotated[
        Path, typer.Option("--password-file", help="Password file of --keystore.")
    ],
    due_since: Annotated[
        int,
        typer.Option(
            "--due-since",
            min=1,
            help=(
                "Time since which the kickout is due, in unix seconds, as shown on the page of "
                "the node."
            ),
        ),
    ],
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="NAME", help=f"Reason for the objection: {_REASONS}."),
    ] = ObjectionReason.OTHER.option,
    explanation: Annotated[
        str, typer.Option("--text", help="Public explanation, at most 280 bytes.")
    ] = "",
    valid_seconds: Annotated[
        int, typer.Option("--valid", min=60, help="Seconds for which the signature is valid.")
    ] = 86_400,
    send: Annotated[
        str | None,
        typer.Option(
            "--send",
            metavar="URL",
            help="Read API of a reporter that submits the objection on chain and pays the gas.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sign an objection with a node's key, and print the call that submits it.

    Nothing is sent without --send. Any account may send the call; the node itself needs no ether.
    """
    loaded_config = load_config(config)
    contract = _get_objections_address(loaded_config)
    reason_number = _parse_objection_reason(reason)
    if len(explanation.encode()) > MAX_WORDS_BYTES:
        raise InputError(
            f"--text: {len(explanation.encode())} bytes; the maximum is {MAX_WORDS_BYTES}"
        )
    signer = KeySigner.open(keystore, password_file)
    with open_checked_chain(loaded_config) as chain:
        head = chain.fetch_heads().latest
        pool_view = open_report_account(loaded_config, chain).pool_view
        seq = ObjectionsContract(pool_view, contract).fetch_next_objection_seq(
            signer.address, head
        )
    statement = ObjectionStatement(
        signer.address, due_since, reason_number, explanation, seq, head.time + valid_seconds
    )
    signature = signer.sign_objection(statement, Domain(loaded_config.chain.id, contract))
    signed_objection = SignedObjectionAnswer(
        node=statement.node,
        due_since=due_since,
        reason=reason_number.option,
        text=explanation,
        seq=seq,
        deadline=statement.deadline,
        signature="0x" + signature.hex(),
        to=contract,
        calldata=encode_signed_objection_call(statement, signature),
    )
    if send is not None:
        post_objection(send, signed_objection)
    if as_json:
        print_model(signed_objection)
        return
    if send is not None:
        typer.echo(
            f"objection {seq} of {signed_objection.node} is accepted; the reporter brings it on "
            "chain"
        )
        return
    typer.echo(
        f"any account sends to {contract}, before {format_block_time(signed_objection.deadline)}:"
    )
    typer.echo(signed_objection.calldata)


def post_objection(url: str, signed_objection: SignedObjectionAnswer) -> None:
    """Post a signed objection to the read API at `url`.

    Raises:
        InputError: the reporter refuses the objection, or `url` does not lead to a read API.
        TransientError: there is no response.
    """
    redacted_url = redact_url(url, ("http", "https"), "--send")
    http = BoundedHttp(
        f"{url.rstrip('/')}/v1/objections", name=redacted_url, max_bytes=_MAX_RESPONSE_BYTES
    )
    try:
        response = http.post(signed_objection.model_dump_json().encode(), *_POST_SECONDS)
    finally:
        http.close()
    if response.status == HTTPStatus.ACCEPTED:
        return
    try:
        detail = str(json.loads(response.body)["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"HTTP status {response.status}; --send takes the address of a read API"
    raise InputError(f"{redacted_url}: the objection was refused: {sanitize_text(detail)}")


@contextmanager
def _open_folded_index(config: Path) -> Iterator[tuple[Index, UnitOfWork]]:
    with (
        open_folded_records(load_config(config)) as records,
        open_index(records) as index,
        index.store.read_transaction() as uow,
    ):
        yield index, uow


def _get_objections_address(config: Config) -> Address:
    address = config.objections.address
    if address is None:
        raise InputError("objections.address: required to sign an objection")
    return parse_address(address)


def _parse_objection_reason(name: str) -> ObjectionReason:
    reason = ObjectionReason.from_option(name)
    if reason is None:
        raise InputError(f"--reason: unknown reason {name}; expected one of: {_REASONS}")
    return reason


def _get_newest_objection(objections: list[Objected], node: str) -> Objected:
    if not objections:
        raise InputError(f"{node}: the node has not objected; see `qos-oracle objection list`")
    return objections[0]


def _print_objections(entries: list[ObjectionEntry], *, as_json: bool) -> None:
    if as_json:
        print_model(entries)
        return
    if not entries:
        typer.echo("no objections")
    for entry in entries:
        typer.echo(
            f"{entry.node}  objection {entry.seq}, {format_block_time(entry.time)}, to the "
            f"kickout that has been due since {entry.due_since}: {entry.reason}"
        )
        typer.echo(f"  {describe_objection_state(entry)}")
        if entry.text:
            typer.echo(f"  the owner's explanation: {sanitize_text(entry.text)}")
