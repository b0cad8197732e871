"""Log sources: pairs of contract and first topic, by the number that log rows refer to."""

from sqlalchemy import Connection, select

from oracle.domain.ids import Address
from oracle.domain.logs import LogSource
from oracle.store.bulk import Row, insert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.tables.log_tables import log_source


class LogSources(dict[LogSource, int]):
    """The table `log_source`, which has a few rows that never change and is loaded on first use.

    Looking up an unknown source assigns the next number to it, which `save` stores. So numbers are
    in the order of first appearance on the chain.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._source_by_number: dict[int, LogSource] = {}
        self._is_read = False
        self._new_rows: list[Row] = []

    def __missing__(self, source: LogSource) -> int:
        self._load()
        if source not in self:
            address, topic = source
            number = self[source] = len(self) + 1
            self._source_by_number[number] = source
            self._new_rows.append(
                (number, decode_hex(address), decode_hex(topic) if topic else b"")
            )
        return self[source]

    def save(self) -> None:
        """Insert the new sources."""
        insert_rows(self._connection, log_source, self._new_rows)
        self._new_rows = []

    def get_source(self, number: int) -> LogSource:
        """Return the source that has this number."""
        self._load()
        return self._source_by_number[number]

    def list_numbers(self, address: Address) -> list[int]:
        """Return the numbers of all sources of one contract."""
        self._load()
        return [number for (emitter, _), number in self.items() if emitter == address]

    def _load(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for number, address, topic in self._connection.execute(select(log_source)):
            source = Address(encode_hex(address)), encode_hex(topic) if topic else ""
            self._source_by_number[number] = source
            self[source] = number
