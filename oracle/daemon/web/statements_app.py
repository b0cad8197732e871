"""Publishes this reporter's signed statements to the other reporters, from memory.

Signatures become public on chain anyway, and have no effect alone
(docs/explanation/reports.md#exchange).
"""

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from oracle import __version__
from oracle.quorum.wire_format import Board, encode_statements

_NONE = 404


def create_statements_app(board: Board) -> FastAPI:
    """Return the application; none of its responses needs a thread."""
    app = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/v1/report/{around}")
    async def get_report_statement(around: int) -> Response:
        """Return the statement that this reporter signed for a round.

        The response has fields, digest, signer and signature, from memory; 404 if nothing was
        signed.
        """
        return _build_statement_response(board, f"report/{around}")

    @app.get("/v1/kick/{node}")
    async def get_kick_statement(node: str) -> Response:
        """Return the statement that this reporter signed for a kickout, by the node's address."""
        return _build_statement_response(board, f"kick/{node}")

    return app


def _build_statement_response(board: Board, path: str) -> Response:
    statement = board.get_statements(path)
    if not statement:
        return JSONResponse({"error": "no statement signed"}, _NONE)
    return Response(encode_statements(statement), media_type="application/json")
