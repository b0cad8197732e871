"""Publishes this reporter's signed statements to other reporters, from memory.

Signatures may be public, because they appear on chain anyway, and a signature has no effect
without a quorum (docs/explanation/reports.md#exchange).
"""

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from oracle import __version__
from oracle.quorum.wire_format import Board, encode_statements

_NOT_FOUND = 404


def create_statements_app(board: Board) -> FastAPI:
    """Create the web application that serves signed statements.

    Its handlers are async and never block.
    """
    app = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/v1/report/{round_number}")
    async def get_report_statements(round_number: int) -> Response:
        """Return the statements that this reporter signed for a round, newest first.

        Each has its fields, digest, signer and signature. The status is 404 if nothing was signed.
        """
        statements = board.get_statements(round_number)
        if not statements:
            return JSONResponse({"error": "no statement signed"}, _NOT_FOUND)
        return Response(encode_statements(statements), media_type="application/json")

    return app
