"""Serves the protocol over two streams: one JSON-RPC message in each line.

The official library would add nine packages to every installation, for four methods.
"""

import json
from collections.abc import Iterable
from typing import Any, TextIO

from oracle import __version__
from oracle.daemon.mcp.api_access import ApiAccess
from oracle.daemon.mcp.tools import INSTRUCTIONS, InvalidCallError, call_tool, list_tools

# Supported versions of the protocol; the messages of this server are the same in all of them.
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602


def serve_messages(api: ApiAccess, requests: Iterable[str], responses: TextIO) -> None:
    """Answer each request, in order, until the client closes the stream."""
    for line in requests:
        if not line.strip():
            continue
        response = answer_message(api, line)
        if response is not None:
            responses.write(json.dumps(response) + "\n")
            responses.flush()


def answer_message(api: ApiAccess, line: str) -> dict[str, Any] | None:
    """Return the response to a message, or None if it is a notification."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _build_error(None, _PARSE_ERROR, "not JSON")
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return _build_error(None, _INVALID_REQUEST, "expected one request with a method")
    if "id" not in message:
        return None
    request_id = message["id"]
    try:
        result = _dispatch_method(api, message["method"], message.get("params") or {})
    except InvalidCallError as error:
        return _build_error(request_id, _INVALID_PARAMS, str(error))
    if result is None:
        return _build_error(request_id, _NO_METHOD, "no such method")
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _dispatch_method(api: ApiAccess, method: str, params: object) -> dict[str, Any] | None:
    """Return the result of a method, or None for an unknown method."""
    if not isinstance(params, dict):
        raise InvalidCallError("params: expected an object")
    if method == "initialize":
        requested = params.get("protocolVersion")
        return {
            "protocolVersion": requested if requested in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "qos-oracle", "version": __version__},
            "instructions": INSTRUCTIONS,
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": list_tools()}
    if method == "tools/call":
        return call_tool(api, params.get("name"), params.get("arguments") or {})
    return None


def _build_error(request_id: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}
