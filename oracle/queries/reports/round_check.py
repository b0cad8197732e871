"""Recomputes an accepted round from the stored logs alone, and compares it with what was accepted.

Nothing folded is used: only raw logs, the rules, and the chain's word about the as-of block.
"""

from dataclasses import dataclass

from oracle.chain.protocols import ChainReader, LogReader
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.registrations import Registrations
from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_data import decode_records
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError, TransientError
from oracle.reporting.recompute import recall
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.store.database import Store


@dataclass(frozen=True, slots=True)
class LaneDifference:
    """One lane that was accepted otherwise than it is computed; None: not in that report."""

    index: int
    accepted: int | None
    computed: int | None


@dataclass(frozen=True, slots=True)
class RoundCheck:
    """An accepted round beside what our logs and rules make of its as-of block.

    `is_same_block`: the chain still has the as-of block that was named. `is_same_digest`: the
    whole statement is what we would have signed, whom it registers included; `registers`: whom
    it should have registered, where that differs, else None.
    """

    accepted: RoundAccepted
    computed: Report
    is_same_block: bool
    is_same_digest: bool
    lanes: tuple[LaneDifference, ...]
    registers: Registrations | None = None

    @property
    def is_good(self) -> bool:
        """Nothing differs."""
        return self.is_same_block and self.is_same_digest and not self.lanes


@dataclass(frozen=True, slots=True)
class RuleNames:
    """Under which rules the statement is recomputed: ours, and the domain it is signed for."""

    rules: Rules
    settings: ReportSettings
    domain: Domain


def check_round(
    number: int, chain: ChainReader, store: Store, reader: LogReader, names: RuleNames
) -> RoundCheck:
    """Recompute round `number`.

    Raises:
        InputError: the round was not accepted in what is indexed.
        TransientError: the chain does not give the as-of block.
    """
    accepted, prev = _accepted(store, number)
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
    is_registering_alike = computed.registrations == accepted.registrations
    return RoundCheck(
        accepted,
        computed,
        is_same_block=as_of.hash == accepted.as_of_hash,
        is_same_digest=statement.digest(names.domain) == accepted.digest,
        lanes=tuple(_differences(dict(accepted.words), dict(decode_records(computed.records)))),
        registers=None if is_registering_alike else computed.registrations,
    )


def _accepted(store: Store, number: int) -> tuple[RoundAccepted, Hash]:
    """Return the round, and the digest of the one that it builds on."""
    with store.reading() as uow:
        accepted = uow.rounds.accepted_round(number)
        before = uow.rounds.accepted_round(number - 1)
    if accepted is None:
        raise InputError(f"round {number} was not accepted in what is indexed")
    if before is None and number > 1:
        raise InputError(f"round {number - 1}, which it builds on, is not in what is indexed")
    return accepted, ZERO_HASH if before is None else before.digest


def _block(chain: ChainReader, number: int) -> BlockRef:
    block = chain.header(number)
    if block is None:
        raise TransientError(f"the chain does not give block {number} now")
    return block


def _differences(accepted: dict[int, int], computed: dict[int, int]) -> list[LaneDifference]:
    found = []
    for word in sorted(accepted.keys() | computed.keys()):
        theirs, ours = _lanes(accepted.get(word)), _lanes(computed.get(word))
        found += [
            LaneDifference(word * LANES_PER_WORD + place, one, other)
            for place, (one, other) in enumerate(zip(theirs, ours, strict=True))
            if one != other
        ]
    return found


def _lanes(word: int | None) -> tuple[int | None, ...]:
    return (None,) * LANES_PER_WORD if word is None else lanes_of(word)
