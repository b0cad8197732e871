"""Implements `mcp`, which lets an AI assistant read scores and the reasons for them over stdio."""

import sys
from contextlib import closing
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, load_config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.mcp_server import LocalApi, RemoteApi, serve_messages
from oracle.daemon.records import open_folded_records
from oracle.daemon.startup import open_read_api


def register(app: typer.Typer) -> None:
    """Register `mcp` on the command line."""
    app.command("mcp", epilog="Example: qos-oracle mcp --url http://127.0.0.1:8090")(serve_mcp)


def serve_mcp(
    config: ConfigOption = DEFAULT_CONFIG,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Address of a read API to read instead of the database."),
    ] = None,
) -> None:
    """Serve read-only tools to an AI assistant (MCP).

    The assistant starts this command and communicates over stdin and stdout. The command ends when
    the assistant closes stdin. The tools are network, node, explain, kickouts, rules and task.
    Untrusted texts are marked.
    """
    if url is not None:
        with closing(RemoteApi(url)) as remote:
            serve_messages(remote, sys.stdin, sys.stdout)
        return
    with open_folded_records(load_config(config)) as records:
        read_api = open_read_api(records, open_reader(records.config), lambda: None)
        serve_messages(LocalApi(read_api), sys.stdin, sys.stdout)
