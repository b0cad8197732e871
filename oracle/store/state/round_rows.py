"""Words, indexes and kickouts of the oracle contract as rows of their tables, and back."""

from typing import Any

from oracle.domain.ids import Address, Hash
from oracle.domain.reports.rounds import Kick, KickState, NodeIndex, Word
from oracle.store.bulk import Row
from oracle.store.encoding import hexed, position_of, position_text, raw, wei


def word_row(word: Word) -> Row:
    return (word.index, wei(word.value), word.round, word.time)


def word_of(row: Any) -> Word:  # noqa: ANN401  a row of any driver
    return Word(row.word_index, int.from_bytes(row.value, "big"), row.round, row.time)


def index_row(entry: NodeIndex) -> Row:
    return (entry.index, raw(entry.node), entry.retired)


def index_of(row: Any) -> NodeIndex:  # noqa: ANN401  a row of any driver
    return NodeIndex(row.lane_index, Address(hexed(row.node)), bool(row.retired))


def kick_row(kick: Kick) -> Row:
    return (
        kick.index,
        raw(kick.node),
        kick.round,
        raw(kick.evidence),
        kick.ready_at,
        position_text(kick.proposed_at),
        kick.state.value,
    )


def kick_of(row: Any) -> Kick:  # noqa: ANN401  a row of any driver
    return Kick(
        index=row.lane_index,
        node=Address(hexed(row.node)),
        round=row.round,
        evidence=Hash(hexed(row.evidence)),
        ready_at=row.ready_at,
        proposed_at=position_of(row.proposed_at),
        state=KickState(row.state),
    )
