"""`report verify`: recomputes an accepted round from the stored logs and compares it."""

from functools import partial
from typing import Annotated

import typer

from oracle.bindings.qos_oracle import ContractStatus, OracleContract
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.report.report_commands import lane_text, report
from oracle.daemon.compose import Index, check_chain_of, open_index
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import oracle_address, report_account
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.reports.lanes import NEVER_REPORTED
from oracle.queries.reports.report_models import LaneDifference, RoundVerification
from oracle.queries.reports.round_check import RuleNames, check_round
from oracle.queries.text.human_numbers import counted
from oracle.signing.typed_data import Domain


def register(_: typer.Typer) -> None:
    """Register `verify` under `report`."""
    report.command(epilog="Example: qos-oracle report verify 42")(verify)


def verify(
    number: Annotated[int, typer.Argument(metavar="ROUND", min=1, help="As accepted on chain.")],
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
        domain = Domain(index.config.chain.id, oracle_address(index.config))
        names = RuleNames(index.rules, index.report_settings, domain)
        chain, agreement = check_chain_of(index), partial(_contract_agreement, index)
        verification = check_round(number, chain, index.store, index.reader, names, agreement)
    if as_json:
        print_answer(verification)
    else:
        _print(verification)
    if not verification.same:
        raise typer.Exit(1)


def _contract_agreement(index: Index, accepted: RoundAccepted) -> bool | None:
    """Return whether the contract stores this round's lanes; None if a newer round came."""
    account = report_account(index.config, index.chain)
    contract = OracleContract(account.lines, account.domain.contract)
    contract_status: ContractStatus = contract.contract_status()
    if contract_status.head.round != accepted.round:
        return None
    held = contract.words([index for index, _ in accepted.words], contract_status.block)
    return contract_status.last_report == accepted.digest and held == dict(accepted.words)


def _print(checked: RoundVerification) -> None:
    typer.echo(f"round {checked.round}, as of block {checked.as_of} {checked.as_of_hash}")
    typer.echo(f"  {counted(checked.words, 'word')}, sent by {checked.transmitter}")
    if checked.same_block and checked.same_digest and not checked.differences:
        typer.echo("  computed anew from the stored logs it is the same, to the signed digest")
    if not checked.same_block:
        typer.echo("  NOT the chain's block: the chain has another one at that height")
    for difference in checked.differences:
        typer.echo(f"  lane {difference.index}: {_differs(difference)}")
    if checked.expected_registrations is not None:
        ours = ", ".join(checked.expected_registrations) or "nobody"
        typer.echo(f"  NOT the nodes that it had to register: computed {ours}")
    elif checked.same_block and not checked.same_digest and not checked.differences:
        typer.echo("  the words are the same, the digest is NOT: it was made under other rules")
    if checked.contract_holds_it is not None:
        holds = "holds" if checked.contract_holds_it else "does NOT hold"
        typer.echo(f"  the contract {holds} these words now")


def _differs(difference: LaneDifference) -> str:
    return (
        f"accepted {_lane_text(difference.accepted)}, computed {_lane_text(difference.computed)}"
    )


def _lane_text(lane: int | None) -> str:
    if lane is None:
        return "nothing"
    if lane == NEVER_REPORTED:
        return "never reported"
    return lane_text(lane)
