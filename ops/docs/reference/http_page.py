"""Generates the page of HTTP paths from the docstrings of their handlers."""

import inspect

from fastapi import FastAPI
from fastapi.routing import APIRoute

from gateway.gateway_app import GATEWAY_PATHS
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web.health_app import create_health_app
from oracle.daemon.web.statements_app import create_statements_app
from oracle.quorum.wire_format import Board
from oracle.store.database import Store
from reference.markdown import render_head, render_table

_ABOUT = """\
This page is for operators and developers who call the daemon's HTTP endpoints. It lists every
path.

All paths are read-only, and request bodies are ignored. The listener `[web]` is for monitoring; it
has no password, so keep it private. The listener `[statements]` serves the other reporters. A
client that exceeds the rate limit receives 429. Each connection serves one response.
"""

_GATEWAY = """\
## A gateway's selection service

The selection service is a separate process ([how to run it](../how-to/run-a-gateway.md)). Each
request needs a token.
"""


def list_routes() -> list[tuple[str, str]]:
    """Return each path of the daemon with the docstring of its handler, or ""."""
    return [
        (route.path, " ".join(inspect.cleandoc(route.endpoint.__doc__ or "").split()))
        for application in _create_applications().values()
        for route in application.routes
        if isinstance(route, APIRoute)
    ]


def list_gateway_routes() -> list[tuple[str, str]]:
    """Return each request of a gateway's selection service with the docstring of its handler."""
    return [
        (call, " ".join(inspect.cleandoc(method.__doc__ or "").split()))
        for call, method in GATEWAY_PATHS.items()
    ]


def _create_applications() -> dict[str, FastAPI]:
    """Create the application of each listener, by the section of its settings."""
    health = create_health_app(DaemonHealth(JobLiveness(lambda: 0.0)), _reject_store_access)
    return {"web": health, "statements": create_statements_app(Board())}


def _reject_store_access() -> Store:
    raise NotImplementedError("the generator sends no requests")


def render_page() -> str:
    """Render the page of HTTP paths as Markdown."""
    rows = [(f"`{path}`", description) for path, description in list_routes()]
    gateway_rows = [(f"`{path}`", description) for path, description in list_gateway_routes()]
    return "\n".join(
        (
            render_head("HTTP", "`oracle/daemon/web/`", about=_ABOUT),
            render_table(("GET", "response"), rows),
            _GATEWAY,
            render_table(("request", "response"), gateway_rows),
        )
    )
