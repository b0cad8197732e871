"""Recomputes an accepted round from the stored logs alone, and compares it with the accepted data.

No folded state is used, only raw logs, the rules, and the chain's as-of block.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oracle.chain.protocols import ChainReader, LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.round_data import decode_records
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError, TransientError
from oracle.queries.answers import LogPlace
from oracle.queries.log_places import log_places
from oracle.queries.reports.report_models import LaneDifference, RoundVerification, round_entry
from oracle.reporting.recompute import recall
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.store.database import Store


@dataclass(frozen=True, slots=True)
class RuleNames:
    """The rules under which a statement is recomputed, and the domain that it is signed for."""

    rules: Rules
    settings: ReportSettings
    domain: Domain


def check_round(
    number: int,
    chain: ChainReader,
    store: Store,
    reader: LogReader,
    names: RuleNames,
    contract_agreement: Callable[[RoundAccepted], bool | None],
) -> RoundVerification:
    """Recompute a round and compare it with the accepted one.

    `matches_contract` returns whether the contract holds exactly the round's words, or None if a
    newer round was accepted since.

    Raises:
        InputError: the index has no such accepted round.
        TransientError: the chain does not serve the as-of block.
    """
    accepted, prev, place = _accepted(store, number)
    as_of = _block(chain, accepted.as_of)
    computed = recall(store, reader, names.rules, names.settings, as_of)
    statement = ReportStatement(
        config=accepted.config,
        round=number,
        prev=prev,
        as_of=as_of.number,
        as_of_hash=as_of.hash,
        deadline=computed.deadline,
        blob=computed.data,
    )
    has_same_block = as_of.hash == accepted.as_of_hash
    has_same_digest = statement.digest(names.domain) == accepted.digest
    has_same_registrations = computed.registrations == accepted.registrations
    differences = _differences(dict(accepted.words), dict(decode_records(computed.records)))
    contract_agrees = contract_agreement(accepted)
    is_same = has_same_block and has_same_digest and not differences
    return RoundVerification(
        **dict(round_entry(accepted, place)),
        same=is_same and contract_agrees is not False,
        same_block=has_same_block,
        same_digest=has_same_digest,
        same_registrations=has_same_registrations,
        expected_registrations=None
        if has_same_registrations
        else list(computed.registrations.fresh),
        contract_holds_it=contract_agrees,
        differences=differences,
    )


def _accepted(store: Store, number: int) -> tuple[RoundAccepted, Hash, LogPlace]:
    """Return the round, the digest of the previous round, and the place where it was accepted."""
    with store.reading() as uow:
        accepted = uow.rounds.accepted_round(number)
        before = uow.rounds.accepted_round(number - 1)
        places = log_places(uow, [] if accepted is None else [accepted.at])
    if accepted is None:
        raise InputError(f"round {number} was not accepted in what is indexed")
    if before is None and number > 1:
        raise InputError(f"round {number - 1}, which it builds on, is not in what is indexed")
    return accepted, ZERO_HASH if before is None else before.digest, places[accepted.at]


def _block(chain: ChainReader, number: int) -> BlockRef:
    block = chain.header(number)
    if block is None:
        raise TransientError(f"the chain does not give block {number} now")
    return block


def _differences(accepted: dict[int, int], computed: dict[int, int]) -> list[LaneDifference]:
    return [
        LaneDifference(index=word * LANES_PER_WORD + lane, accepted=theirs, computed=ours)
        for word in sorted(accepted.keys() | computed.keys())
        for lane, (theirs, ours) in enumerate(
            zip(_lanes(accepted.get(word)), _lanes(computed.get(word)), strict=True)
        )
        if theirs != ours
    ]


def _lanes(word: int | None) -> tuple[int | None, ...]:
    return (None,) * LANES_PER_WORD if word is None else lanes_of(word)
