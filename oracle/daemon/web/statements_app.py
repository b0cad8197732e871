"""What this reporter signed, for the other reporters: shown to whoever asks, from memory.

It is going to be public, and counts for nothing alone (docs/explanation/reports.md#exchange).
"""

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from oracle import __version__
from oracle.quorum.board import Board
from oracle.quorum.wire_format import written

_NONE = 404


def statements_app(board: Board) -> FastAPI:
    """Return the application; none of its answers needs a thread."""
    web = FastAPI(title="qos-oracle", version=__version__, docs_url=None, redoc_url=None)

    @web.get("/v1/report/{around}")
    async def report(around: int) -> Response:
        """What this reporter signed for a round: fields, digest, signer, signature.

        From memory; 404 where nothing was signed.
        """
        return _shown(board, f"report/{around}")

    @web.get("/v1/kick/{node}")
    async def kick(node: str) -> Response:
        """The same of a kickout, by the node's address."""
        return _shown(board, f"kick/{node}")

    return web


def _shown(board: Board, place: str) -> Response:
    found = board.at(place)
    if not found:
        return JSONResponse({"error": "nothing was signed here"}, _NONE)
    return Response(written(found), media_type="application/json")
