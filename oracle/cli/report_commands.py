"""Implements `report show`, `release`, `verify` and `diff`; `push` and `signers` are elsewhere.

`show` recomputes the report of a period, and `verify` an accepted round, and both compare the
result with the original. `diff` compares the leaves of a report with another reporter's leaves.
"""

from contextlib import closing
from functools import partial
from typing import Annotated

import typer

from oracle.bindings.qos_roots import RootsContract
from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.cli.report_push import push
from oracle.cli.report_signers import show_signers
from oracle.cli.write_session import open_write_session
from oracle.daemon.compose import Index, get_checked_chain, open_index
from oracle.daemon.records import Records, open_folded_records, open_records
from oracle.daemon.senders import get_oracle_address, open_report_account
from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE
from oracle.errors import TransientError
from oracle.queries.health import format_disputed_reports
from oracle.queries.leaf_comparison import (
    PeerLeaves,
    ReportComparison,
    compare_report_with_peer,
    verify_round,
)
from oracle.queries.leaf_models import LeafDifference
from oracle.queries.report_models import (
    EndpointRoot,
    HeldReport,
    ReleasedReport,
    ReportDetail,
    ReportEntry,
    ReportLane,
    RoundVerification,
    build_report_entry,
    compute_report_detail,
)
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, print_table
from oracle.reporting.recompute import find_last_block_of_period
from oracle.reporting.sanity_gate import get_releasable_hold, release_held_report

_QOS_STEPS = 10_000
_COLUMNS = ("period", "as of block", "round", "changed nodes", "state", "reason")

report = typer.Typer(no_args_is_help=True)

_PeriodOption = Annotated[
    int | None,
    typer.Option(
        "--period",
        min=0,
        max=MAX_STORED_NUMBER,
        metavar="P",
        help="Period to show in full. Default: list the newest reports.",
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(
        report, name="report", help="Show, push, release, verify and compare score reports."
    )


@report.command(epilog="Example: qos-oracle report show --period 29764920 --json")
def show(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    period: _PeriodOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest reports, or recompute the report of one period.

    The report is recomputed from the stored logs. It is compared with the stored report; exit code
    1 if they differ.
    """
    with open_folded_records(load_config(config)) as records:
        if period is None:
            _print_reports(records, as_json=as_json)
            return
        with open_index(records) as index:
            _show_recomputed_report(index, period, as_json=as_json)


def _print_reports(records: Records, *, as_json: bool) -> None:
    with records.store.read_transaction() as uow:
        entries = [
            build_report_entry(stored_report) for stored_report in uow.reports.list_newest()
        ]
    if as_json:
        print_model(entries)
        return
    if not entries:
        typer.echo("no reports yet; the first is cut when the index reaches the chain head")
        return
    print_table(
        _COLUMNS,
        map(_format_report_row, entries),
        left_columns=("state", "reason"),
        width=WIDE_TABLE_WIDTH,
    )


def _format_report_row(entry: ReportEntry) -> list[str]:
    round_text = "" if entry.round is None else str(entry.round)
    cells = (entry.period, entry.as_of, round_text, entry.changed_nodes, entry.state)
    return [*map(str, cells), entry.reason or ""]


def _show_recomputed_report(index: Index, period: int, *, as_json: bool) -> None:
    settings = index.report_settings
    chain = get_checked_chain(index)
    as_of = find_last_block_of_period(chain, index.store, period, settings.period_seconds)
    detail = compute_report_detail(index.store, index.reader, index.rules, settings, as_of)
    if as_json:
        print_model(detail)
    else:
        _print_report_detail(detail, has_shares=index.rules.legacy is not None)
    if detail.is_wrong:
        raise typer.Exit(1)


def _print_report_detail(detail: ReportDetail, *, has_shares: bool) -> None:
    as_of_text = f"as of block {detail.as_of} (time {detail.as_of_time})"
    typer.echo(f"period {detail.period}, {as_of_text}, on top of round {detail.head_round}")
    if detail.state is None:
        typer.echo("no stored report for this period; recomputed from the stored logs")
    else:
        comparison_text = "identical" if detail.same_as_cut else "DIFFERENT"
        reason_suffix = f": {detail.reason}" if detail.reason else ""
        typer.echo(f"{detail.state}{reason_suffix}; the recomputed report is {comparison_text}")
    typer.echo(f"root of all nodes in round {detail.head_round + 1}: {detail.root}")
    if not detail.lanes:
        typer.echo("no score differs from the last round, or its leaves are not stored")
        return
    # Only legacy rules have incentive shares.
    column_count = 5 if has_shares else 4
    column_titles = ("seat", "node", "before", "score", "incentive share")[:column_count]
    print_table(
        column_titles,
        (_format_lane_row(lane)[:column_count] for lane in detail.lanes),
        left_columns=column_titles[2:],
    )


def _format_lane_row(lane: ReportLane) -> list[str]:
    share_text = "-" if lane.incentive_share is None else format_decimal(lane.incentive_share)
    before_text = "-" if lane.before is None else _format_lane(lane.before)
    return [str(lane.seat), lane.node, before_text, _format_lane(lane.lane), share_text]


def _format_lane(lane: int) -> str:
    """Format the QoS of a lane with four digits, or as "do not select"."""
    if lane == DO_NOT_SELECT:
        return "do not select"
    return f"{(lane - LOWEST_SCORE) / _QOS_STEPS:.4f}"


report.command(epilog="Example: qos-oracle report push --yes")(push)
report.command("signers", epilog="Example: qos-oracle report signers --round 12")(show_signers)


@report.command("release", epilog="Example: qos-oracle report release 29764920")
def release_report(
    period: Annotated[
        int | None,
        typer.Argument(
            metavar="PERIOD",
            min=0,
            max=MAX_STORED_NUMBER,
            help="Period of the report to release. Default: list the held reports.",
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release a report held by the sanity gate, after manual review.

    A report whose leaves differ from the nodes is never signed and cannot be released. Later
    reports are compared with the lanes of this report, even if this report expires before it
    reaches the chain.
    """
    with open_records(load_config(config)) as records:
        if period is None:
            _print_held_reports(records, as_json=as_json)
            return
        with open_write_session(records.store, "report release", dry_run=dry_run) as (uow, stamp):
            hold = get_releasable_hold(uow, period)
            if not dry_run:
                release_held_report(uow, period, stamp)
    if as_json:
        print_model(ReleasedReport(**dict(HeldReport.model_validate(hold)), released=not dry_run))
        return
    verb = "would be" if dry_run else "is"
    typer.echo(f"the report of period {period} {verb} released; it was held: {hold.reason}")


def _print_held_reports(records: Records, *, as_json: bool) -> None:
    with records.store.read_transaction() as uow:
        holds = uow.holds.list_awaiting_operator()
    if as_json:
        print_model([HeldReport.model_validate(hold) for hold in holds])
        return
    if not holds:
        typer.echo("no report is held")
    disputed_holds = [hold for hold in holds if hold.is_disputed]
    for hold in holds:
        if not hold.is_disputed:
            typer.echo(f"period {hold.period}: {hold.reason}")
    if disputed_holds:
        typer.echo(format_disputed_reports(disputed_holds))


@report.command(epilog="Example: qos-oracle report verify 42")
def verify(
    round_number: Annotated[
        int,
        typer.Argument(
            metavar="ROUND",
            min=1,
            max=MAX_STORED_NUMBER,
            help="Number of the round accepted on-chain.",
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Recompute an accepted round and compare it with the chain.

    The root of the round is recomputed from the stored logs. The comparison covers the as-of
    block, the root and, while the contract keeps it, the contract's copy of the root as each
    endpoint returns it. If the roots differ, the first leaf that differs is shown. Exit code 1 if
    anything differs.
    """
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        get_oracle_address(index.config)
        verification = verify_round(
            round_number,
            get_checked_chain(index),
            index.archive,
            partial(_fetch_contract_roots, index),
        )
    if as_json:
        print_model(verification)
    else:
        _print_round_verification(verification)
    if not verification.same:
        raise typer.Exit(1)


def _fetch_contract_roots(
    index: Index, round_number: int
) -> dict[str, tuple[BlockRef, Hash | None]]:
    """Fetch each endpoint's newest block, and the contract's root of a round at that block.

    Raises:
        TransientError: no endpoint returns the contract's state.
    """
    account = open_report_account(index.config, index.chain)
    root_by_endpoint, failures = {}, []
    for view in account.pool_view.build_single_endpoint_views():
        try:
            contract = RootsContract(view, account.domain.contract)
            root_by_endpoint[view.callers[0].name] = contract.fetch_root(round_number)
        except TransientError as error:
            failures.append(error)
    if not root_by_endpoint:
        raise failures[0]
    return root_by_endpoint


def _print_round_verification(verification: RoundVerification) -> None:
    typer.echo(
        f"round {verification.round}, as of block {verification.as_of} {verification.as_of_hash}"
    )
    typer.echo(f"  root {verification.root}")
    if verification.computed_root == verification.root:
        typer.echo("  recomputed from the stored logs: identical")
    else:
        typer.echo(f"  recomputed from the stored logs: DIFFERENT, {verification.computed_root}")
    if not verification.same_block:
        typer.echo("  as-of block is NOT canonical: the chain has another block at that height")
    if verification.is_struck:
        typer.echo("  the root was struck: nothing can be proven with it")
    if verification.leaf_difference is not None:
        _print_leaf_difference(verification.leaf_difference, "recomputed", "in the round")
    for contract_root in verification.contract_roots:
        typer.echo(f"  {_describe_contract_root(contract_root, verification)}")


def _describe_contract_root(entry: EndpointRoot, verification: RoundVerification) -> str:
    block_text = f"block {entry.block} of {entry.endpoint}"
    if entry.root == verification.root:
        return f"the contract has this root at {block_text}"
    if entry.root is not None:
        return f"the contract has ANOTHER root at {block_text}: {entry.root}"
    if entry.is_behind:
        accepted_block = verification.place.block
        return f"not compared at {block_text}: the round was accepted in block {accepted_block}"
    return f"the contract has no root of this round at {block_text}"


def _print_leaf_difference(difference: LeafDifference, own_title: str, other_title: str) -> None:
    typer.echo(f"  first leaf that differs: seat {difference.seat}")
    for leaf, owner in (
        (difference.own_leaf, own_title),
        (difference.other_leaf, other_title),
    ):
        if leaf is None:
            typer.echo(f"  {owner}: no leaf")
        elif not difference.fields:
            typer.echo(f"  {owner}: node {leaf.node}")
    if difference.own_leaf is not None and difference.other_leaf is not None:
        typer.echo(f"  node {difference.own_leaf.node}")
    if difference.fields:
        print_table(
            ("field", own_title, other_title),
            [[entry.name, entry.own_value, entry.other_value] for entry in difference.fields],
            left_columns=("field", own_title, other_title),
            width=WIDE_TABLE_WIDTH,
        )


@report.command(
    epilog="Example: qos-oracle report diff 29764920 --with https://reporter.example:8000"
)
def diff(
    period: Annotated[
        int,
        typer.Argument(
            metavar="PERIOD", min=0, max=MAX_STORED_NUMBER, help="Period of the report to compare."
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    url: Annotated[
        str,
        typer.Option(
            "--with", metavar="URL", help="Address of the read API of the other reporter."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Compare a report with another reporter's, and print the first leaf that differs.

    The hashes of the pieces are compared first, and only one piece is fetched. Exit code 1 if the
    reports differ.
    """
    with open_folded_records(load_config(config)) as records, closing(PeerLeaves(url)) as peer:
        comparison = compare_report_with_peer(records.store, peer, period)
    if as_json:
        print_model(comparison)
    else:
        _print_report_comparison(comparison)
    if not comparison.same:
        raise typer.Exit(1)


def _print_report_comparison(comparison: ReportComparison) -> None:
    if comparison.same:
        typer.echo(f"period {comparison.period}: identical, root {comparison.own_root}")
        return
    typer.echo(f"period {comparison.period}: the reports are DIFFERENT")
    typer.echo(f"  own root   {comparison.own_root}")
    typer.echo(f"  their root {comparison.peer_root}")
    for entry in comparison.summary:
        typer.echo(f"  {entry.name}: ours {entry.own_value}, theirs {entry.other_value}")
    if comparison.leaf is None:
        typer.echo("  all leaves are identical")
    else:
        _print_leaf_difference(comparison.leaf, "ours", "theirs")
