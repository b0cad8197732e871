"""Publishes what this reporter signed to the other reporters, from memory.

Signatures become public on chain anyway, and have no effect alone
(docs/explanation/quorum.md#exchange).
"""

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from oracle import __version__
from oracle.quorum.board import Board
from oracle.quorum.wire_format import written

_NONE = 404


def statements_app(board: Board) -> FastAPI:
    """Return the application; none of its responses needs a thread."""
    web = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @web.get("/v1/report/{around}")
    async def report(around: int) -> Response:
        """The statement that this reporter signed for a round: fields, digest, signer, signature.

        From memory; 404 if nothing was signed.
        """
        return _shown(board, f"report/{around}")

    @web.get("/v1/kick/{node}")
    async def kick(node: str) -> Response:
        """The statement that this reporter signed for a kickout, by the node's address."""
        return _shown(board, f"kick/{node}")

    return web


def _shown(board: Board, place: str) -> Response:
    found = board.at(place)
    if not found:
        return JSONResponse({"error": "nothing was signed here"}, _NONE)
    return Response(written(found), media_type="application/json")
