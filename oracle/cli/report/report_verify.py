"""`report verify`: recomputes an accepted round from the stored logs and compares it."""

from functools import partial
from typing import Annotated

import typer

from oracle.bindings.qos_oracle import ContractStatus, OracleContract
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.report.report_commands import format_report_lane, report
from oracle.daemon.compose import Index, check_index_chain, open_index
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import get_oracle_address, open_report_account
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.lanes import NEVER_REPORTED
from oracle.queries.reports.report_models import LaneDifference, RoundVerification
from oracle.queries.reports.round_check import RoundRules, verify_round
from oracle.queries.text.human_numbers import format_count
from oracle.signing.typed_data import Domain


def register(_: typer.Typer) -> None:
    """Register `verify` under `report`."""
    report.command(epilog="Example: qos-oracle report verify 42")(verify)


def verify(
    round_number: Annotated[
        int, typer.Argument(metavar="ROUND", min=1, help="Number of the round accepted on-chain.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Recompute an accepted round and compare it with the chain.

    The round is recomputed from the stored logs. The comparison covers every lane, the as-of
    block, the signed digest and, for the newest round, the current state of the contract. Exit
    code 1 if anything differs.
    """
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        domain = Domain(index.config.chain.id, get_oracle_address(index.config))
        rule_names = RoundRules(index.rules, index.report_settings, domain)
        chain, check_agreement = (
            check_index_chain(index),
            partial(_check_contract_agreement, index),
        )
        verification = verify_round(
            round_number, chain, index.store, index.reader, rule_names, check_agreement
        )
    if as_json:
        print_answer(verification)
    else:
        _print_verification(verification)
    if not verification.same:
        raise typer.Exit(1)


def _check_contract_agreement(index: Index, accepted: RoundAccepted) -> bool | None:
    """Return whether the contract stores this round's lanes, or None after a newer round."""
    account = open_report_account(index.config, index.chain)
    contract = OracleContract(account.pool_view, account.domain.contract)
    contract_status: ContractStatus = contract.get_status()
    if contract_status.head.round != accepted.round:
        return None
    stored_words = contract.get_lane_words(
        [lane_index for lane_index, _ in accepted.words], contract_status.block
    )
    return contract_status.last_report == accepted.digest and stored_words == dict(accepted.words)


def _print_verification(verification: RoundVerification) -> None:
    typer.echo(
        f"round {verification.round}, as of block {verification.as_of} {verification.as_of_hash}"
    )
    typer.echo(f"  {format_count(verification.words, 'word')}, sent by {verification.transmitter}")
    if verification.same_block and verification.same_digest and not verification.differences:
        typer.echo("  recomputed from the stored logs: identical, including the signed digest")
    if not verification.same_block:
        typer.echo("  as-of block is NOT canonical: the chain has another block at that height")
    for difference in verification.differences:
        typer.echo(f"  lane {difference.index}: {_describe_difference(difference)}")
    if verification.expected_registrations is not None:
        computed_nodes = ", ".join(verification.expected_registrations) or "none"
        typer.echo(f"  registered nodes DIFFERENT: computed {computed_nodes}")
    elif verification.same_block and not verification.same_digest and not verification.differences:
        typer.echo(
            "  lanes identical, digest DIFFERENT: the report was computed under other rules"
        )
    if verification.contract_holds_it is not None:
        verb = "stores" if verification.contract_holds_it else "does NOT store"
        typer.echo(f"  the contract {verb} these lanes now")


def _describe_difference(difference: LaneDifference) -> str:
    accepted = _format_lane_or_none(difference.accepted)
    return f"accepted {accepted}, computed {_format_lane_or_none(difference.computed)}"


def _format_lane_or_none(lane: int | None) -> str:
    if lane is None:
        return "nothing"
    if lane == NEVER_REPORTED:
        return "never reported"
    return format_report_lane(lane)
