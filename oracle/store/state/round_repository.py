"""Stores the state of the oracle contract that was folded from its events.

See docs/explanation/reports.md#fold-what-is-on-chain.
"""

from collections.abc import Collection

from sqlalchemy import Connection, bindparam, exists, func, select

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundAccepted, RoundsStruck
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.contract_state import ContractChanges, ContractSettings, ContractState
from oracle.domain.reports.node_kicks import EXPELLED_STATES, KickState, NodeKick
from oracle.domain.roots.pieces import KEPT_ROUNDS
from oracle.store.bulk import insert_missing_rows, insert_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.state.objection_repository import encode_objection_row
from oracle.store.state.round_rows import (
    decode_accepted_row,
    decode_kick_row,
    decode_setting_row,
    decode_strike_row,
    encode_accepted_row,
    encode_kick_row,
    encode_setting_row,
    encode_strike_row,
)
from oracle.store.tables.objection_tables import objection
from oracle.store.tables.round_tables import accepted_round, contract_setting, kick, strike

_OLDEST_FIRST = [accepted_round.c[name] for name in Position._fields]
_NEWEST_FIRST = [column.desc() for column in _OLDEST_FIRST]
_ACCEPTED_ROUND = select(accepted_round).where(accepted_round.c.round == bindparam("number"))


class RoundRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load_contract_state(self, *, up_to_block: int | None = None) -> ContractState:
        """Load the rounds, kickouts and settings of the oracle contract.

        They are as of the cursor. With `up_to_block`, the rounds and settings are as of the end of
        this block, and there are no kickouts, because only their newest state is stored.
        """
        accepted_rounds = self.list_accepted(KEPT_ROUNDS, up_to_block=up_to_block)
        return ContractState(
            KEPT_ROUNDS,
            accepted_rounds=accepted_rounds,
            strikes=self.list_strikes(accepted_rounds[0].round, up_to_block)
            if accepted_rounds
            else (),
            kicks=self.list_kicks() if up_to_block is None else (),
            settings=self.get_contract_settings(up_to_block=up_to_block),
        )

    def save_changes(self, changes: ContractChanges) -> None:
        """Write the changes of the contract's state, and the replaced rows for undo.

        The changes were drained from `ContractState`.
        """
        upsert_rows(
            self._connection, kick, [encode_kick_row(entry) for entry in changes.kicks.values()]
        )
        insert_rows(
            self._connection, accepted_round, list(map(encode_accepted_row, changes.accepted))
        )
        insert_rows(self._connection, strike, list(map(encode_strike_row, changes.strikes)))
        insert_rows(
            self._connection, contract_setting, list(map(encode_setting_row, changes.settings))
        )
        # If two objections have the same number, the first counts. This project's contract never
        # emits two of them.
        insert_missing_rows(
            self._connection, objection, list(map(encode_objection_row, changes.objections))
        )
        # Imported here, because reading rounds needs none of the journal's tables.
        from oracle.store.state.undo_journal import UndoJournal  # noqa: PLC0415

        UndoJournal(self._connection).write(changes.pre_images)

    def list_accepted(
        self, limit: int = 50, *, up_to_block: int | None = None
    ) -> list[RoundAccepted]:
        """Return the newest accepted rounds, oldest first."""
        query = select(accepted_round).order_by(*_NEWEST_FIRST).limit(limit)
        if up_to_block is not None:
            query = query.where(accepted_round.c.block <= up_to_block)
        return [
            decode_accepted_row(row) for row in reversed(self._connection.execute(query).all())
        ]

    def list_accepted_below(self, number: int | None, limit: int) -> list[RoundAccepted]:
        """Return up to `limit` rounds, newest first.

        With `number`, only rounds with lower numbers are returned.
        """
        query = select(accepted_round).order_by(accepted_round.c.round.desc()).limit(limit)
        if number is not None:
            query = query.where(accepted_round.c.round < number)
        return [decode_accepted_row(row) for row in self._connection.execute(query)]

    def list_accepted_since(self, time: int, first_block: int, limit: int) -> list[RoundAccepted]:
        """Return up to `limit` rounds accepted since `time`, oldest first.

        `first_block` limits the search; all rows below this block must be older than `time`.
        """
        query = select(accepted_round).where(
            accepted_round.c.block >= first_block, accepted_round.c.time >= time
        )
        rows = self._connection.execute(query.order_by(*_OLDEST_FIRST).limit(limit))
        return [decode_accepted_row(row) for row in rows]

    def list_accepted_between(self, first: int, last: int) -> list[RoundAccepted]:
        """Return the rounds accepted in blocks `first` to `last`, oldest first.

        Both blocks are included.
        """
        query = select(accepted_round).where(accepted_round.c.block.between(first, last))
        return [
            decode_accepted_row(row)
            for row in self._connection.execute(query.order_by(*_OLDEST_FIRST))
        ]

    def list_newest_as_of_blocks(self, limit: int) -> list[int]:
        """Return the as-of blocks of the newest accepted rounds, newest first."""
        query = select(accepted_round.c.as_of).order_by(*_NEWEST_FIRST).limit(limit)
        return [int(as_of) for (as_of,) in self._connection.execute(query)]

    def find_newest_root(self) -> Hash | None:
        """Return the root of the newest accepted round, even if it was withdrawn.

        Return None if no round was accepted.
        """
        query = select(accepted_round.c.root).order_by(*_NEWEST_FIRST).limit(1)
        root = self._connection.execute(query).scalar_one_or_none()
        return None if root is None else Hash(encode_hex(root))

    def find_accepted_round(self, number: int) -> RoundAccepted | None:
        """Return an accepted round by number, or None if it was not accepted."""
        row = self._connection.execute(_ACCEPTED_ROUND, {"number": number}).one_or_none()
        return None if row is None else decode_accepted_row(row)

    def find_accepted_as_of(self, block: int) -> RoundAccepted | None:
        """Return the newest accepted round as of this block, or None if there is none."""
        order = accepted_round.c.round.desc()
        query = select(accepted_round).where(accepted_round.c.as_of == block)
        row = self._connection.execute(query.order_by(order).limit(1)).one_or_none()
        return None if row is None else decode_accepted_row(row)

    def find_last_provable_round(
        self, *, up_to_block: int | None = None, up_to_time: int | None = None
    ) -> RoundAccepted | None:
        """Return the last accepted round, unless its root was withdrawn.

        The result is None if the root was withdrawn or no round was accepted. `up_to_block` and
        `up_to_time` restrict the search to rounds that were accepted by then.
        """
        query = select(accepted_round).order_by(*_NEWEST_FIRST).limit(1)
        if up_to_block is not None:
            query = query.where(accepted_round.c.block <= up_to_block)
        if up_to_time is not None:
            query = query.where(accepted_round.c.time <= up_to_time)
        row = self._connection.execute(query).one_or_none()
        newest_round = None if row is None else decode_accepted_row(row)
        return None if newest_round is None or self.is_struck(newest_round.round) else newest_round

    def get_last_round_and_root(self) -> tuple[int, Hash]:
        """Return the number and the root of the last round.

        A withdrawn root is returned as zero.
        """
        newest_rounds = self.list_accepted(limit=1)
        if not newest_rounds:
            return 0, ZERO_HASH
        round_number = newest_rounds[0].round
        return round_number, ZERO_HASH if self.is_struck(round_number) else newest_rounds[0].root

    def is_struck(self, number: int) -> bool:
        """Return whether the root of a round was withdrawn."""
        query = select(
            exists().where(strike.c.first_round <= number, strike.c.last_round >= number)
        )
        return bool(self._connection.execute(query).scalar_one())

    def list_strikes(
        self, first_round: int = 0, up_to_block: int | None = None
    ) -> list[RoundsStruck]:
        """Return the withdrawals of roots from `first_round` on, oldest first.

        A withdrawal is an event of the contract.
        """
        query = select(strike).where(strike.c.last_round >= first_round)
        if up_to_block is not None:
            query = query.where(strike.c.block <= up_to_block)
        order_columns = [strike.c[name] for name in Position._fields]
        return [
            decode_strike_row(row)
            for row in self._connection.execute(query.order_by(*order_columns))
        ]

    def list_round_signers(self, accepted_rounds: RoundAccepted) -> tuple[Address, ...]:
        """Return the signers of a round.

        The result is empty if the configuration of the round is unknown.
        """
        return self.get_contract_settings().find_round_signers(accepted_rounds) or ()

    def list_kicks(self) -> list[NodeKick]:
        """Return the kickouts of all nodes, by node."""
        rows = self._connection.execute(select(kick).order_by(kick.c.node))
        return [decode_kick_row(row) for row in rows]

    def get_kick_by_node(self, nodes: Collection[Address]) -> dict[Address, NodeKick]:
        """Return the kickouts of these nodes, by node."""
        query = select(kick).where(kick.c.node.in_([decode_hex(node) for node in nodes]))
        kicks = [decode_kick_row(row) for row in self._connection.execute(query)]
        return {entry.node: entry for entry in kicks}

    def list_accusations(self) -> list[NodeKick]:
        """Return the kickouts that await execution, ordered by node."""
        return self._list_kicks_in_states([KickState.ACCUSED])

    def list_expulsions(self) -> list[NodeKick]:
        """Return the executed kickouts of nodes that were not readmitted, ordered by node."""
        return self._list_kicks_in_states(EXPELLED_STATES)

    def _list_kicks_in_states(self, states: Collection[KickState]) -> list[NodeKick]:
        query = select(kick).where(kick.c.state.in_([state.value for state in states]))
        rows = self._connection.execute(query.order_by(kick.c.node)).all()
        return [decode_kick_row(row) for row in rows]

    def list_newest_kicks(self, limit: int = 50) -> list[NodeKick]:
        """Return the newest accusations and expulsions of any state, oldest first.

        They are ordered by the time from which a kickout may be executed. If the veto delay was
        shortened, this order may differ from the order of the accusations.
        """
        query = select(kick).order_by(func.coalesce(kick.c.ready_at, 0).desc(), kick.c.node.desc())
        rows = self._connection.execute(query.limit(limit)).all()
        return [decode_kick_row(row) for row in reversed(rows)]

    def get_contract_settings(self, *, up_to_block: int | None = None) -> ContractSettings:
        """Return the newest settings of the contract.

        A setting is None if no event has set it.
        """
        order_columns = [contract_setting.c[name] for name in Position._fields]
        query = select(contract_setting).order_by(*order_columns)
        if up_to_block is not None:
            query = query.where(contract_setting.c.block <= up_to_block)
        settings = ContractSettings()
        for row in self._connection.execute(query):
            settings = settings.apply_event(decode_setting_row(row))
        return settings
