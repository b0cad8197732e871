"""State of the oracle contract, folded from its events.

See docs/explanation/reports.md#fold-what-is-on-chain.
"""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Table, func, select

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.contract_state import RoundHead, RoundsChanges, Standing, Word
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.lanes import (
    LANES_PER_WORD,
    NEVER_REPORTED,
    lanes_of,
    word_of as word_number_of,
)
from oracle.domain.reports.rounds import Rounds
from oracle.store.bulk import KEYS, append, upsert
from oracle.store.encoding import hexed, raw
from oracle.store.state.round_rows import (
    accepted_of,
    accepted_row,
    config_in,
    index_of,
    index_row,
    kick_of,
    kick_row,
    setting_row,
    standing_of,
    word_of,
    word_row,
)
from oracle.store.state.undo_journal import UndoJournal
from oracle.store.tables.round_tables import (
    accepted_round,
    contract_setting,
    kick,
    lane_word,
    node_index,
)


class RoundRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self) -> Rounds:
        """Return the contract's state at the cursor: head, indexes, words, kickouts, settings."""
        newest = self.accepted(last=1)
        return Rounds(
            head=_head_of(newest[0]) if newest else None,
            indexes=[index_of(row) for row in self._rows(node_index)],
            words=[word_of(row) for row in self._rows(lane_word)],
            kicks=self.kicks(),
            standing=self.standing(),
        )

    def write(self, changes: RoundsChanges) -> None:
        """Write the changes drained from `Rounds`, with pre-images into the undo journal."""
        upsert(self._connection, lane_word, [word_row(each) for each in changes.words.values()])
        upsert(
            self._connection, node_index, [index_row(each) for each in changes.indexes.values()]
        )
        upsert(self._connection, kick, [kick_row(each) for each in changes.kicks.values()])
        accepted = [accepted_row(each) for each in changes.accepted]
        append(self._connection, accepted_round, accepted)
        append(self._connection, contract_setting, [setting_row(each) for each in changes.set])
        UndoJournal(self._connection).write(changes.pre_images)

    def accepted(self, last: int = 50, *, up_to_block: int | None = None) -> list[RoundAccepted]:
        """Return the newest accepted rounds with their words, oldest first."""
        newest = [accepted_round.c[name].desc() for name in Position._fields]
        chosen = select(accepted_round).order_by(*newest).limit(last)
        if up_to_block is not None:
            chosen = chosen.where(accepted_round.c.block <= up_to_block)
        return [accepted_of(row) for row in reversed(self._connection.execute(chosen).all())]

    def accepted_below(self, number: int | None, limit: int) -> list[RoundAccepted]:
        """Return up to `limit` rounds below `number` (None: no limit), newest first."""
        chosen = select(accepted_round).order_by(accepted_round.c.round.desc()).limit(limit)
        if number is not None:
            chosen = chosen.where(accepted_round.c.round < number)
        return [accepted_of(row) for row in self._connection.execute(chosen)]

    def accepted_from(self, block: int, limit: int) -> list[RoundAccepted]:
        """Return the first rounds that were accepted in this block or later, in order."""
        chosen = select(accepted_round).where(accepted_round.c.block >= block)
        rows = self._connection.execute(chosen.order_by(accepted_round.c.round).limit(limit))
        return [accepted_of(row) for row in rows]

    def nodes_at(self, indexes: Collection[int]) -> dict[int, Address]:
        """Return the nodes of these lane indexes; unassigned ones are left out."""
        chosen = select(node_index.c.lane_index, node_index.c.node)
        rows = self._connection.execute(chosen.where(node_index.c.lane_index.in_(indexes)))
        return {index: Address(hexed(found)) for index, found in rows}

    def low_nodes(self, line: int) -> set[Address]:
        """Return the nodes whose lane is reported and below the lane value `max_lane`."""
        words = self._connection.execute(select(lane_word.c.word_index, lane_word.c.value)).all()
        low = [
            LANES_PER_WORD * number + place
            for number, value in words
            for place, lane in enumerate(lanes_of(int.from_bytes(value, "big")))
            if lane != NEVER_REPORTED and lane < line
        ]
        found = set[Address]()
        for at in range(0, len(low), KEYS):
            some = node_index.c.lane_index.in_(low[at : at + KEYS])
            rows = self._connection.execute(select(node_index.c.node).where(some)).all()
            found.update(Address(hexed(row[0])) for row in rows)
        return found

    def newest_digest(self) -> Hash | None:
        """Return the digest of the newest accepted round, or None."""
        newest = [accepted_round.c[name].desc() for name in Position._fields]
        chosen = select(accepted_round.c.digest).order_by(*newest).limit(1)
        digest = self._connection.execute(chosen).scalar_one_or_none()
        return None if digest is None else Hash(hexed(digest))

    def accepted_round(self, number: int) -> RoundAccepted | None:
        """Return one accepted round with its words, or None."""
        chosen = select(accepted_round).where(accepted_round.c.round == number)
        row = self._connection.execute(chosen).one_or_none()
        return None if row is None else accepted_of(row)

    def accepted_as_of(self, block: int) -> RoundAccepted | None:
        """Return the newest accepted round as of this block with its words, or None."""
        newest = accepted_round.c.round.desc()
        chosen = select(accepted_round).where(accepted_round.c.as_of == block)
        row = self._connection.execute(chosen.order_by(newest).limit(1)).one_or_none()
        return None if row is None else accepted_of(row)

    def since(
        self, word: int, as_of: int, after: int = 0, limit: int = 100
    ) -> list[RoundAccepted]:
        """Return the first rounds after `after_round` as of `as_of` or later, in order.

        Only one word is decoded, if the round carries it: decoding all would yield thousands.
        """
        chosen = select(accepted_round).where(
            accepted_round.c.as_of >= as_of, accepted_round.c.round > after
        )
        rows = self._connection.execute(chosen.order_by(accepted_round.c.round).limit(limit))
        return [accepted_of(row, word) for row in rows]

    def until(self, word: int, number: int, limit: int = 100) -> list[RoundAccepted]:
        """Return the last rounds up to `round_number`, newest first, with one word only."""
        chosen = select(accepted_round).where(accepted_round.c.round <= number)
        newest = accepted_round.c.round.desc()
        rows = self._connection.execute(chosen.order_by(newest).limit(limit))
        return [accepted_of(row, word) for row in rows]

    def words(self, numbers: Iterable[int]) -> dict[int, Word]:
        """Return the stored words of these numbers, by number."""
        chosen = select(lane_word).where(lane_word.c.word_index.in_(list(numbers)))
        return {row.word_index: word_of(row) for row in self._connection.execute(chosen)}

    def kicks(self) -> list[Kick]:
        """Return the newest proposed kickout of each node."""
        return [kick_of(row) for row in self._rows(kick)]

    def proposed_in(self, number: int) -> int:
        """Count the kickouts that were proposed in a round, whatever their state."""
        counted = select(func.count()).select_from(kick).where(kick.c.round == number)
        return int(self._connection.execute(counted).scalar_one())

    def live_kicks(self) -> list[Kick]:
        """Return the kickouts that await execution, by node."""
        return self._in_states(KickState.LIVE)

    def expelled(self) -> list[Kick]:
        """Return the executed kickouts that are still in force, by node."""
        return self._in_states(KickState.EXECUTED, KickState.REFUSED)

    def _in_states(self, *states: KickState) -> list[Kick]:
        chosen = select(kick).where(kick.c.state.in_([one.value for one in states]))
        rows = self._connection.execute(chosen.order_by(kick.c.node)).all()
        return [kick_of(row) for row in rows]

    def newest_kicks(self, last: int = 50) -> list[Kick]:
        """Return the last proposed kickouts, whatever their state, oldest first.

        Ordered by the time from which they may be executed; after a shortened veto that is not
        their exact order.
        """
        chosen = select(kick).order_by(kick.c.ready_at.desc(), kick.c.node.desc())
        rows = self._connection.execute(chosen.limit(last)).all()
        return [kick_of(row) for row in reversed(rows)]

    def standing(self, *, up_to_block: int | None = None) -> Standing:
        """Return the contract's newest settings, as far as their events were read."""
        newest = [contract_setting.c[name] for name in Position._fields]
        chosen = select(contract_setting).order_by(*newest)
        if up_to_block is not None:
            chosen = chosen.where(contract_setting.c.block <= up_to_block)
        rows = self._connection.execute(chosen).all()
        return standing_of({row.name: row for row in rows})

    def config_before(self, at: Position) -> Hash | None:
        """Return the configuration in force at a position, or None if no event was read."""
        newest = [contract_setting.c[name].desc() for name in Position._fields]
        chosen = select(contract_setting).where(
            contract_setting.c.name == "config", contract_setting.c.block <= at.block
        )
        rows = self._connection.execute(chosen.order_by(*newest))
        before = (row for row in rows if (row.block, row.tx, row.log) < (at.block, at.tx, at.log))
        found = next(before, None)
        return None if found is None else config_in(found)

    def vetoer(self) -> Address | None:
        """Return the vetoer of kickouts, or None if no event was read."""
        return self.standing().vetoer

    def node_at(self, index: int) -> Address | None:
        """Return the node of a lane index, or None."""
        chosen = select(node_index.c.node).where(node_index.c.lane_index == index)
        node = self._connection.execute(chosen).scalar_one_or_none()
        return None if node is None else Address(hexed(node))

    def about(self, nodes: Collection[Address]) -> Rounds:
        """Return the contract's state of some nodes: their lanes' words and kickouts.

        The head is left out. Only a few rows are read, whereas `load` reads every lane.
        """
        named = select(node_index).where(node_index.c.node.in_([raw(node) for node in nodes]))
        indexes = [index_of(row) for row in self._connection.execute(named).all()]
        lanes = [entry.index for entry in indexes]
        words = select(lane_word).where(
            lane_word.c.word_index.in_({word_number_of(lane) for lane in lanes})
        )
        kicks = select(kick).where(kick.c.node.in_([raw(node) for node in nodes]))
        return Rounds(
            indexes=indexes,
            words=[word_of(row) for row in self._connection.execute(words)],
            kicks=[kick_of(row) for row in self._connection.execute(kicks)],
        )

    def _rows(self, table: Table) -> Iterable[Any]:
        (key,) = table.primary_key.columns
        return self._connection.execute(select(table).order_by(key))


def _head_of(accepted: RoundAccepted) -> RoundHead:
    return RoundHead(accepted.round, accepted.as_of, accepted.digest, accepted.time)
