"""The in-memory board of signed statements, written by the worker and read by the HTTP server.

Reading the board never waits for the database or an endpoint.
"""

from collections.abc import Mapping
from types import MappingProxyType

from oracle.quorum.wire_format import MAX_STATEMENTS, ReportMessage, StatementMessage

# The maximum number of rounds and nodes; the oldest are dropped first.
_MAX_PATHS = 256


class Board:
    """The newest statements, by HTTP path (`report/7`, `kick/0x…`)."""

    def __init__(self) -> None:
        self._statements_by_path: Mapping[str, tuple[StatementMessage, ...]] = MappingProxyType({})

    def publish(self, statement: StatementMessage) -> None:
        """Publish a statement, ahead of older statements of its round or node."""
        path = build_statement_path(statement)
        # The mapping is replaced, so that a concurrent reader sees the complete old one.
        statements_by_path = dict(self._statements_by_path)
        earlier_statements = tuple(
            earlier_statement
            for earlier_statement in statements_by_path.pop(path, ())
            if earlier_statement.digest != statement.digest
        )
        statements_by_path[path] = (statement, *earlier_statements)[:MAX_STATEMENTS]
        for oldest_path in list(statements_by_path)[:-_MAX_PATHS]:
            del statements_by_path[oldest_path]
        self._statements_by_path = MappingProxyType(statements_by_path)

    def get_statements(self, path: str) -> list[StatementMessage]:
        """Return the statements at a path, newest first; safe from any thread."""
        return list(self._statements_by_path.get(path.lower(), ()))


def build_statement_path(statement: StatementMessage) -> str:
    """Return the HTTP path of a statement, below `/v1/`."""
    return (
        f"report/{statement.round}"
        if isinstance(statement, ReportMessage)
        else f"kick/{statement.node}"
    )
