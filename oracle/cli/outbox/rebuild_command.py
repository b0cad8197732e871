"""`outbox rebuild`: restores the nonces of an account whose database was lost or is outdated."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    confirm_action,
    load_config,
    print_answer,
)
from oracle.cli.write_session import actor, command_lease, tell_of_lease
from oracle.daemon.compose import Index, check_chain_of, check_identity, identify, open_index
from oracle.daemon.records import open_records
from oracle.daemon.senders import (
    key_opener,
    open_dispatcher,
    open_reporter,
    reporter_contexts,
)
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.queries.outbox_change_models import RebuiltAccount, RebuiltNonce
from oracle.queries.text.text_tables import in_utc, print_table
from oracle.quorum.key_watch import SignerHistory, back_off_signer, resting, signing_of
from oracle.quorum.quorum_context import QuorumContext
from oracle.store.outbox.records import Account
from oracle.txmgr.context import TxContext
from oracle.txmgr.rebuild_from_chain import (
    RecoveryFindings,
    compare_with_chain,
    rebuild_outbox as write_down,
)

_COLUMNS = ("nonce", "transaction", "block", "outcome")
_TEXT = ("transaction", "outcome")
_MOST_BLOCKS = 10_000
# More nonces than this are shown as ranges.
_MOST_ROWS = 20
_COMMAND = "outbox rebuild --from-chain"


def add_to(outbox: typer.Typer) -> None:
    """Add `outbox rebuild` to the outbox commands."""
    outbox.command("rebuild", epilog="Example: qos-oracle outbox rebuild --from-chain --dry-run")(
        rebuild
    )


def rebuild(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    from_chain: Annotated[
        bool, typer.Option("--from-chain", help="Read what was sent from the chain.")
    ] = False,
    blocks: Annotated[
        int, typer.Option("--blocks", min=1, help="How far back to look for transactions.")
    ] = _MOST_BLOCKS,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rebuild nonces missing in this database from the chain, marked as done.

    Use it after a database was lost or restored from an old copy. Nothing is sent and no nonce is
    reused, and the signer signs nothing until every statement of the lost database has expired.
    """
    if not from_chain:
        raise InputError("say where from: `qos-oracle outbox rebuild --from-chain`")
    confirm_action("counting nonces anew for good", yes=yes, dry_run=dry_run)
    rebuild = partial(_rebuild, blocks=blocks, dry_run=dry_run, is_shown=not as_json)
    with open_records(load_config(config)) as records, open_index(records) as index:
        if not dry_run:
            with command_lease(index.store, _COMMAND) as epoch:
                check_chain_of(index)
                identify(index)
                answers = [rebuild(tx, quorum) for tx, quorum in _accounts(index, epoch)]
        else:
            tell_of_lease(index.store)
            check_chain_of(index)
            check_identity(index)
            answers = [rebuild(tx, quorum) for tx, quorum in _accounts(index, 0)]
    if as_json:
        print_answer(answers)


def _accounts(index: Index, epoch: int) -> Iterator[tuple[TxContext, QuorumContext | None]]:
    """Yield the report account and the dispatcher account, as far as their keys are configured.

    The second element is the quorum of the account's signer, or None if it signs no statements.
    """
    found, open_key = False, key_opener(index.config)
    if index.config.oracle.address is not None:
        with open_reporter(index, open_key) as reporter:
            if reporter.account.has_keys:
                found = True
                quorum = reporter_contexts(reporter, epoch, unix_seconds).quorum
                yield replace(quorum.tx, actor=actor()), quorum
    if index.dispatch_settings is not None and open_key("dispatcher") is not None:
        found = True
        dispatcher = open_dispatcher(index, open_key, epoch, unix_seconds)
        yield replace(dispatcher.tx, actor=actor()), None
    if not found:
        raise InputError("[keys] names no key that sends or signs: there is nothing to rebuild")


def _rebuild(
    context: TxContext,
    quorum: QuorumContext | None,
    *,
    blocks: int,
    dry_run: bool,
    is_shown: bool,
) -> RebuiltAccount:
    """Store the chain's view of an account, and return the answer.

    With `dry_run` nothing is stored.
    """
    if not context.publisher.has_payer:
        signing = None if quorum is None else signing_of(quorum)
        if quorum is not None and signing is not None and not dry_run:
            back_off_signer(quorum, signing, actor())
        if is_shown:
            _show_signing(signing, dry_run=dry_run)
        return _with_signing(RebuiltAccount(dry_run=dry_run), signing)
    found = compare_with_chain(context, blocks)
    is_lost = quorum is not None and found.may_have_lost_more
    signing = signing_of(quorum) if quorum is not None and is_lost else None
    if not found.is_nothing and not dry_run:
        write_down(context, found, actor(), resting(quorum, signing))
    pause = _pause_of(context)
    if is_shown:
        _show(found, signing, dry_run=dry_run)
        _show_pause(found.account, pause)
    answer = RebuiltAccount(
        dry_run=dry_run,
        address=found.account.address,
        known_next_nonce=found.known,
        mined=found.mined,
        pending=found.pending,
        next_nonce=max(found.known or 0, found.nonces.stop),
        rebuilt=tuple(_rebuilt_nonce(found, nonce) for nonce in found.nonces),
        dropped=tuple(found.dropped),
        nonces_ahead=tuple(_rebuilt_nonce(found, nonce) for nonce in found.nonces_ahead),
        paused=pause,
    )
    return _with_signing(answer, signing)


def _pause_of(context: TxContext) -> str | None:
    with context.store.reading() as uow:
        pause = uow.outbox.accounts.paused_because(context.account)
    return None if pause is None else f"{pause.kind.value}: {pause.reason}"


def _show_pause(account: Account, pause: str | None) -> None:
    """Warn about a paused sender, because a rebuild does not lift the pause."""
    if pause is not None:
        typer.echo(
            f"{account.address} is paused since before ({pause}); once it is known why, "
            f"`qos-oracle outbox release {account.address}` lets it go on",
            err=True,
        )


def _show(found: RecoveryFindings, signing: SignerHistory | None, *, dry_run: bool) -> None:
    """Print the findings: the table on stdout, its meaning on stderr."""
    address = found.account.address
    if found.is_nothing:
        typer.echo(
            f"{address}: nothing to rebuild, the chain knows no more than the outbox", err=True
        )
        return
    known = f"nonces below {found.known}" if found.known else "nothing"
    waiting = found.pending - found.mined
    typer.echo(
        f"{address}: the outbox knows {known}, the chain has {found.mined} in blocks and "
        f"{waiting} waiting",
        err=True,
    )
    if not found.nonces and not found.nonces_ahead:
        _show_dropped(found, dry_run=dry_run)
        return
    nonces = sorted({*found.nonces, *found.nonces_ahead})
    if len(nonces) > _MOST_ROWS:
        rows = [_cells_of_run(found, run) for run in runs_of(nonces)]
    else:
        rows = [_cells(found, nonce) for nonce in nonces]
    print_table(_COLUMNS, rows, left=_TEXT)
    would = "would be" if dry_run else "is"
    typer.echo(f"the next nonce {would} {found.nonces.stop}", err=True)
    _show_dropped(found, dry_run=dry_run)
    _show_signing(signing, dry_run=dry_run)


def _show_dropped(found: RecoveryFindings, *, dry_run: bool) -> None:
    """Print the nonces that were pending in the mempool when rebuilt, and are gone now."""
    if found.dropped:
        named = ", ".join(map(_named, runs_of(found.dropped)))
        would = "would fill" if dry_run else "fills"
        typer.echo(
            f"rebuilt while they waited, and in no pool any more: nonces {named}; the daemon "
            f"{would} them with no-ops, which cost gas",
            err=True,
        )


def _cells(found: RecoveryFindings, nonce: int) -> list[str]:
    spent = found.spent.get(nonce)
    if spent is None:
        return [str(nonce), "", "", "waits" if nonce >= found.mined else "not found"]
    outcome = "worked" if spent.succeeded else "failed"
    return [str(nonce), spent.hash, str(spent.block_number), outcome]


def _cells_of_run(found: RecoveryFindings, run: range) -> list[str]:
    """Return one row for many nonces with counts of outcomes; `--json` lists every nonce."""
    cells = [_cells(found, nonce) for nonce in run]
    blocks = [int(block) for _, _, block, _ in cells if block]
    named = _named(range(min(blocks), max(blocks) + 1)) if blocks else ""
    outcomes = Counter(outcome for *_, outcome in cells)
    told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    return [_named(run), f"{len(run)} nonces", named, told]


def runs_of(numbers: Sequence[int]) -> list[range]:
    """Group ascending numbers into ranges without gaps."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs


def _named(run: range) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}"


def _show_signing(signing: SignerHistory | None, *, dry_run: bool) -> None:
    if signing is None:
        return
    typer.echo(f"the contract is at round {signing.round}, {signing.last_report}", err=True)
    if signing.embargoed_until is not None:
        until = in_utc(signing.embargoed_until, "%Y-%m-%d %H:%M:%S")
        signs = "would sign" if dry_run else "signs"
        typer.echo(f"the signer {signs} nothing until {until} UTC, chain time", err=True)


def _rebuilt_nonce(found: RecoveryFindings, nonce: int) -> RebuiltNonce:
    spent = found.spent.get(nonce)
    return RebuiltNonce(
        nonce=nonce,
        hash=None if spent is None else spent.hash,
        block=None if spent is None else spent.block_number,
        succeeded=None if spent is None else spent.succeeded,
        to=None if spent is None else spent.to,
        selector=None if spent is None else spent.selector,
    )


def _with_signing(answer: RebuiltAccount, signing: SignerHistory | None) -> RebuiltAccount:
    """Return the answer with the time until which the signer waits."""
    if signing is None:
        return answer
    return answer.model_copy(
        update={
            "round": signing.round,
            "last_report": signing.last_report,
            "quiet_until": signing.embargoed_until,
        }
    )
