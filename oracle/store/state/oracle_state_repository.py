"""State of the oracle contract that accepts one Merkle root a round, folded from its events."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Select, select

from oracle.domain.blocks import Position
from oracle.domain.events.roots_events import RootAccepted, RoundsStruck
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.node_kicks import EXPELLED_STATES, NodeKick, NodeKickState
from oracle.domain.reports.oracle_settings import OracleSettings
from oracle.domain.reports.oracle_state import OracleChanges, OracleState
from oracle.store.bulk import insert_rows, upsert_rows
from oracle.store.encoding import decode_hex
from oracle.store.state.oracle_state_rows import (
    decode_accepted_root_row,
    decode_node_kick_row,
    decode_setting_row,
    decode_strike_row,
    encode_accepted_root_row,
    encode_node_kick_row,
    encode_setting_row,
    encode_strike_row,
)
from oracle.store.state.undo_journal import UndoJournal
from oracle.store.tables.contract_tables import accepted_root, node_kick, struck_rounds
from oracle.store.tables.round_tables import contract_setting

_OLDEST_FIRST = [accepted_root.c[name] for name in Position._fields]
_NEWEST_FIRST = [column.desc() for column in _OLDEST_FIRST]


class OracleStateRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self, kept_rounds: int) -> OracleState:
        """Load the contract's state at the cursor; the contract keeps `kept_rounds` roots."""
        accepted = self.list_accepted(kept_rounds)
        return OracleState(
            kept_rounds,
            accepted=accepted,
            strikes=self.list_strikes_from(accepted[0].round) if accepted else (),
            kicks=self.list_kicks(),
            settings=self.get_settings(),
        )

    def save_changes(self, changes: OracleChanges) -> None:
        """Write drained changes of `OracleState`, and their pre-images into the undo journal."""
        kick_rows = [encode_node_kick_row(kick) for kick in changes.kicks.values()]
        upsert_rows(self._connection, node_kick, kick_rows)
        for table, rows in (
            (accepted_root, [encode_accepted_root_row(event) for event in changes.accepted]),
            (struck_rounds, [encode_strike_row(event) for event in changes.strikes]),
            (contract_setting, [encode_setting_row(event) for event in changes.settings]),
        ):
            insert_rows(self._connection, table, rows)
        UndoJournal(self._connection).write(changes.pre_images)

    # --- rounds ---

    def list_accepted(
        self, limit: int = 50, *, up_to_block: int | None = None
    ) -> list[RootAccepted]:
        """Return the newest accepted rounds, oldest first."""
        query = select(accepted_root).order_by(*_NEWEST_FIRST).limit(limit)
        if up_to_block is not None:
            query = query.where(accepted_root.c.block <= up_to_block)
        return self._fetch_accepted(query)[::-1]

    def list_accepted_below(self, number: int | None, limit: int) -> list[RootAccepted]:
        """Return up to `limit` rounds, below `number` if given, newest first."""
        query = select(accepted_root).order_by(accepted_root.c.round.desc()).limit(limit)
        if number is not None:
            query = query.where(accepted_root.c.round < number)
        return self._fetch_accepted(query)

    def list_newest_as_of_blocks(self, limit: int) -> list[int]:
        """Return the as-of blocks of the newest accepted rounds, newest first."""
        query = select(accepted_root.c.as_of).order_by(accepted_root.c.round.desc()).limit(limit)
        return list(self._connection.execute(query).scalars())

    def list_accepted_from(self, time: int, first_block: int, limit: int) -> list[RootAccepted]:
        """Return up to `limit` rounds that were accepted since `time`, oldest first.

        `first_block` limits the search: all rows below this block are older than `time`.
        """
        query = select(accepted_root).where(
            accepted_root.c.block >= first_block, accepted_root.c.time >= time
        )
        return self._fetch_accepted(query.order_by(*_OLDEST_FIRST).limit(limit))

    def list_accepted_between(self, first: int, last: int) -> list[RootAccepted]:
        """Return the rounds accepted in blocks `first` to `last`, both included, oldest first."""
        query = select(accepted_root).where(accepted_root.c.block.between(first, last))
        return self._fetch_accepted(query.order_by(*_OLDEST_FIRST))

    def get_accepted_round(self, number: int) -> RootAccepted | None:
        """Return one accepted round, or None."""
        query = select(accepted_root).where(accepted_root.c.round == number)
        return next(iter(self._fetch_accepted(query)), None)

    def list_strikes_from(
        self, first_round: int, *, up_to_block: int | None = None
    ) -> list[RoundsStruck]:
        """Return the strikes of round `first_round` or of later ones, oldest first."""
        query = select(struck_rounds).where(struck_rounds.c.last_round >= first_round)
        if up_to_block is not None:
            query = query.where(struck_rounds.c.block <= up_to_block)
        order = [struck_rounds.c[name] for name in Position._fields]
        rows = self._connection.execute(query.order_by(*order))
        return [decode_strike_row(row) for row in rows]

    def get_previous_root(self) -> Hash:
        """Return the root that the next report names as `prev`, as `OracleState.previous_root`."""
        newest = self.list_accepted(1)
        return ZERO_HASH if not newest or self.is_struck(newest[0].round) else newest[0].root

    def is_struck(self, number: int) -> bool:
        """Return whether the root of a round was struck, so that it proves nothing any more."""
        return any(strike.first <= number for strike in self.list_strikes_from(number))

    # --- kickouts ---

    def list_kicks(self) -> list[NodeKick]:
        """Return the kickouts of all nodes, by node."""
        return self._fetch_kicks(select(node_kick).order_by(node_kick.c.node))

    def get_kicks(self, nodes: Collection[Address]) -> dict[Address, NodeKick]:
        """Return the kickouts of some nodes, by node; nodes without one are left out."""
        keys = [decode_hex(node) for node in nodes]
        kicks = self._fetch_kicks(select(node_kick).where(node_kick.c.node.in_(keys)))
        return {kick.node: kick for kick in kicks}

    def list_accused(self) -> list[NodeKick]:
        """Return the kickouts that await execution, by node."""
        return self._list_kicks_in_states([NodeKickState.ACCUSED])

    def list_expulsions(self) -> list[NodeKick]:
        """Return the executed kickouts that were not revoked, by node."""
        return self._list_kicks_in_states(EXPELLED_STATES)

    def list_newest_accused(self, limit: int = 50) -> list[NodeKick]:
        """Return the kickouts of the last accusations, in any state, oldest first.

        The order is by the time from which a kickout may be executed. If the veto period was
        shortened, this order may differ from the order of the accusations.
        """
        query = select(node_kick).where(node_kick.c.ready_at.is_not(None))
        order = (node_kick.c.ready_at.desc(), node_kick.c.node.desc())
        return self._fetch_kicks(query.order_by(*order).limit(limit))[::-1]

    # --- settings ---

    def get_settings(self, *, up_to_block: int | None = None) -> OracleSettings:
        """Return the contract's newest settings; a setting that no event has set is None."""
        order = [contract_setting.c[name] for name in Position._fields]
        query = select(contract_setting).order_by(*order)
        if up_to_block is not None:
            query = query.where(contract_setting.c.block <= up_to_block)
        settings = OracleSettings()
        for row in self._connection.execute(query):
            settings = settings.apply_event(decode_setting_row(row))
        return settings

    def _fetch_accepted(self, query: Select[*tuple[Any, ...]]) -> list[RootAccepted]:
        return [decode_accepted_root_row(row) for row in self._connection.execute(query)]

    def _fetch_kicks(self, query: Select[*tuple[Any, ...]]) -> list[NodeKick]:
        return [decode_node_kick_row(row) for row in self._connection.execute(query)]

    def _list_kicks_in_states(self, states: Iterable[NodeKickState]) -> list[NodeKick]:
        query = select(node_kick).where(node_kick.c.state.in_([state.value for state in states]))
        return self._fetch_kicks(query.order_by(node_kick.c.node))
