"""State of the oracle contract, folded from its events.

See docs/explanation/reports.md#fold-what-is-on-chain.
"""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Table, bindparam, func, select

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.contract_state import ContractSettings, RoundHead, RoundsChanges, Word
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.lanes import (
    LANES_PER_WORD,
    NEVER_REPORTED,
    get_word_index,
    unpack_lanes,
)
from oracle.domain.reports.rounds import Rounds
from oracle.store.bulk import KEYS_PER_QUERY, insert_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.state.round_rows import (
    decode_accepted_row,
    decode_config_digest,
    decode_contract_settings,
    decode_index_row,
    decode_kick_row,
    decode_word_row,
    encode_accepted_row,
    encode_index_row,
    encode_kick_row,
    encode_setting_row,
    encode_word_row,
)
from oracle.store.state.undo_journal import UndoJournal
from oracle.store.tables.round_tables import (
    accepted_round,
    contract_setting,
    kick,
    lane_word,
    node_index,
)

_OLDEST_FIRST = [accepted_round.c[name] for name in Position._fields]
_NEWEST_FIRST = [column.desc() for column in _OLDEST_FIRST]
_ACCEPTED_ROUND = select(accepted_round).where(accepted_round.c.round == bindparam("number"))


class RoundRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self) -> Rounds:
        """Load the contract's state at the cursor: head, indexes, words, kickouts, settings."""
        accepted = next(iter(self.list_accepted(limit=1)), None)
        return Rounds(
            head=None
            if accepted is None
            else RoundHead(accepted.round, accepted.as_of, accepted.digest, accepted.time),
            indexes=[decode_index_row(row) for row in self._select_rows(node_index)],
            words=[decode_word_row(row) for row in self._select_rows(lane_word)],
            kicks=self.list_kicks(),
            settings=self.get_contract_settings(),
        )

    def save_changes(self, changes: RoundsChanges) -> None:
        """Write the changes drained from `Rounds`, and their pre-images into the undo journal."""
        upsert_rows(
            self._connection,
            lane_word,
            [encode_word_row(entry) for entry in changes.words.values()],
        )
        upsert_rows(
            self._connection,
            node_index,
            [encode_index_row(entry) for entry in changes.indexes.values()],
        )
        upsert_rows(
            self._connection, kick, [encode_kick_row(entry) for entry in changes.kicks.values()]
        )
        accepted_rows = [encode_accepted_row(entry) for entry in changes.accepted]
        insert_rows(self._connection, accepted_round, accepted_rows)
        insert_rows(
            self._connection,
            contract_setting,
            [encode_setting_row(entry) for entry in changes.settings],
        )
        UndoJournal(self._connection).write(changes.pre_images)

    def list_accepted(
        self, limit: int = 50, *, up_to_block: int | None = None
    ) -> list[RoundAccepted]:
        """Return the newest accepted rounds with their words, oldest first."""
        query = select(accepted_round).order_by(*_NEWEST_FIRST).limit(limit)
        if up_to_block is not None:
            query = query.where(accepted_round.c.block <= up_to_block)
        return [
            decode_accepted_row(row) for row in reversed(self._connection.execute(query).all())
        ]

    def list_accepted_below(self, number: int | None, limit: int) -> list[RoundAccepted]:
        """Return up to `limit` rounds, below `number` if given, newest first."""
        query = select(accepted_round).order_by(accepted_round.c.round.desc()).limit(limit)
        if number is not None:
            query = query.where(accepted_round.c.round < number)
        return [decode_accepted_row(row) for row in self._connection.execute(query)]

    def list_newest_as_of_blocks(self, limit: int) -> list[int]:
        """Return the as-of blocks of the newest accepted rounds, newest first."""
        query = select(accepted_round.c.as_of).order_by(accepted_round.c.round.desc()).limit(limit)
        return list(self._connection.execute(query).scalars())

    def list_accepted_from(self, time: int, first_block: int, limit: int) -> list[RoundAccepted]:
        """Return up to `limit` rounds that were accepted since `time`, oldest first.

        `first_block` limits the search: all rows below this block are older than `time`.
        """
        query = select(accepted_round).where(
            accepted_round.c.block >= first_block, accepted_round.c.time >= time
        )
        rows = self._connection.execute(query.order_by(*_OLDEST_FIRST).limit(limit))
        return [decode_accepted_row(row) for row in rows]

    def list_accepted_between(self, first: int, last: int) -> list[RoundAccepted]:
        """Return the rounds accepted in blocks `first` to `last`, both included, oldest first."""
        query = select(accepted_round).where(accepted_round.c.block.between(first, last))
        return [
            decode_accepted_row(row)
            for row in self._connection.execute(query.order_by(*_OLDEST_FIRST))
        ]

    def get_nodes_by_index(self, indexes: Collection[int]) -> dict[int, Address]:
        """Return the nodes of these lane indexes; unassigned indexes are left out."""
        query = select(node_index.c.lane_index, node_index.c.node)
        rows = self._connection.execute(query.where(node_index.c.lane_index.in_(indexes)))
        return {index: Address(encode_hex(address)) for index, address in rows}

    def find_nodes_below_lane(self, max_lane: int) -> set[Address]:
        """Return the nodes with a reported lane whose value is below `max_lane`."""
        words = self._connection.execute(select(lane_word.c.word_index, lane_word.c.value)).all()
        low_indexes = [
            LANES_PER_WORD * number + lane_position
            for number, value in words
            for lane_position, lane in enumerate(unpack_lanes(int.from_bytes(value, "big")))
            if lane != NEVER_REPORTED and lane < max_lane
        ]
        addresses = set[Address]()
        for offset in range(0, len(low_indexes), KEYS_PER_QUERY):
            is_low = node_index.c.lane_index.in_(low_indexes[offset : offset + KEYS_PER_QUERY])
            rows = self._connection.execute(select(node_index.c.node).where(is_low)).all()
            addresses.update(Address(encode_hex(row[0])) for row in rows)
        return addresses

    def get_newest_digest(self) -> Hash | None:
        """Return the digest of the newest accepted round, or None."""
        query = select(accepted_round.c.digest).order_by(*_NEWEST_FIRST).limit(1)
        digest = self._connection.execute(query).scalar_one_or_none()
        return None if digest is None else Hash(encode_hex(digest))

    def get_accepted_round(self, number: int) -> RoundAccepted | None:
        """Return one accepted round with its words, or None."""
        row = self._connection.execute(_ACCEPTED_ROUND, {"number": number}).one_or_none()
        return None if row is None else decode_accepted_row(row)

    def get_accepted_as_of(self, block: int) -> RoundAccepted | None:
        """Return the newest accepted round as of this block with its words, or None."""
        order = accepted_round.c.round.desc()
        query = select(accepted_round).where(accepted_round.c.as_of == block)
        row = self._connection.execute(query.order_by(order).limit(1)).one_or_none()
        return None if row is None else decode_accepted_row(row)

    def list_accepted_since(
        self, word_index: int, as_of: int, after_round: int = 0, limit: int = 100
    ) -> list[RoundAccepted]:
        """Return the rounds after `after_round` whose as-of block is `as_of` or later, in order.

        At most `limit` rounds are returned. Only the word `word_index` of each round is decoded,
        because a round can have thousands of words.
        """
        query = select(accepted_round).where(
            accepted_round.c.as_of >= as_of, accepted_round.c.round > after_round
        )
        rows = self._connection.execute(query.order_by(accepted_round.c.round).limit(limit))
        return [decode_accepted_row(row, word_index) for row in rows]

    def list_accepted_up_to(
        self, word_index: int, round_number: int, limit: int = 100
    ) -> list[RoundAccepted]:
        """Return the last rounds up to `round_number`, newest first, with one word each.

        Only the word `word_index` is decoded.
        """
        query = select(accepted_round).where(accepted_round.c.round <= round_number)
        order = accepted_round.c.round.desc()
        rows = self._connection.execute(query.order_by(order).limit(limit))
        return [decode_accepted_row(row, word_index) for row in rows]

    def get_words(self, numbers: Iterable[int]) -> dict[int, Word]:
        """Return the stored words with these indexes, by index."""
        query = select(lane_word).where(lane_word.c.word_index.in_(list(numbers)))
        return {row.word_index: decode_word_row(row) for row in self._connection.execute(query)}

    def list_kicks(self) -> list[Kick]:
        """Return the newest proposed kickout of each node."""
        return [decode_kick_row(row) for row in self._select_rows(kick)]

    def count_kicks_proposed_in_round(self, number: int) -> int:
        """Count the kickouts that were proposed in a round, in any state."""
        count_query = select(func.count()).select_from(kick).where(kick.c.round == number)
        return int(self._connection.execute(count_query).scalar_one())

    def list_live_kicks(self) -> list[Kick]:
        """Return the kickouts that await execution, by node."""
        return self._list_kicks_in_states(KickState.LIVE)

    def list_expulsions(self) -> list[Kick]:
        """Return the executed kickouts that are still in force, by node."""
        return self._list_kicks_in_states(KickState.EXECUTED, KickState.REFUSED)

    def _list_kicks_in_states(self, *states: KickState) -> list[Kick]:
        query = select(kick).where(kick.c.state.in_([state.value for state in states]))
        rows = self._connection.execute(query.order_by(kick.c.node)).all()
        return [decode_kick_row(row) for row in rows]

    def list_newest_kicks(self, limit: int = 50) -> list[Kick]:
        """Return the last proposed kickouts, in any state, oldest first.

        The order is by the time from which a kickout may be executed. If the veto period was
        shortened, this order may differ from the order of the proposals.
        """
        query = select(kick).order_by(kick.c.ready_at.desc(), kick.c.node.desc())
        rows = self._connection.execute(query.limit(limit)).all()
        return [decode_kick_row(row) for row in reversed(rows)]

    def get_contract_settings(self, *, up_to_block: int | None = None) -> ContractSettings:
        """Return the contract's newest settings; a setting that no event has set is None."""
        order = [contract_setting.c[name] for name in Position._fields]
        query = select(contract_setting).order_by(*order)
        if up_to_block is not None:
            query = query.where(contract_setting.c.block <= up_to_block)
        rows = self._connection.execute(query).all()
        return decode_contract_settings({row.name: row for row in rows})

    def get_config_before(self, position: Position) -> Hash | None:
        """Return the digest of the configuration in force at a position, or None if unknown."""
        order = [contract_setting.c[name].desc() for name in Position._fields]
        query = select(contract_setting).where(
            contract_setting.c.name == "config", contract_setting.c.block <= position.block
        )
        rows = self._connection.execute(query.order_by(*order))
        earlier_rows = (
            row
            for row in rows
            if (row.block, row.tx, row.log) < (position.block, position.tx, position.log)
        )
        newest_row = next(earlier_rows, None)
        return None if newest_row is None else decode_config_digest(newest_row)

    def get_node_at(self, index: int) -> Address | None:
        """Return the node of a lane index, or None."""
        query = select(node_index.c.node).where(node_index.c.lane_index == index)
        address = self._connection.execute(query).scalar_one_or_none()
        return None if address is None else Address(encode_hex(address))

    def load_for_nodes(self, nodes: Collection[Address]) -> Rounds:
        """Load the contract's state for some nodes: their indexes, words and kickouts.

        The head and the settings are left out. Only a few rows are read, whereas `load` reads
        every lane.
        """
        index_query = select(node_index).where(
            node_index.c.node.in_([decode_hex(node) for node in nodes])
        )
        indexes = [decode_index_row(row) for row in self._connection.execute(index_query).all()]
        lanes = [entry.index for entry in indexes]
        word_query = select(lane_word).where(
            lane_word.c.word_index.in_({get_word_index(lane) for lane in lanes})
        )
        kick_query = select(kick).where(kick.c.node.in_([decode_hex(node) for node in nodes]))
        return Rounds(
            indexes=indexes,
            words=[decode_word_row(row) for row in self._connection.execute(word_query)],
            kicks=[decode_kick_row(row) for row in self._connection.execute(kick_query)],
        )

    def _select_rows(self, table: Table) -> Iterable[Any]:
        (key,) = table.primary_key.columns
        return self._connection.execute(select(table).order_by(key))
