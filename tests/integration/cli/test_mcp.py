"""`qos-oracle mcp` as an assistant starts it: a process to which the official client connects."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.store.database import Store
from tests.support.api import IDENTITY_SETTINGS, IndexedHistory
from tests.support.cli.local_network import write_config
from tests.support.histories import History, make_node_address

if "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ:
    pytest.importorskip("mcp")

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

pytestmark = [pytest.mark.slow]


async def call_tools(*options: str) -> tuple[list[str], dict[str, Any], bool]:
    """Return the names of the tools, an explanation, and whether an unknown node is an error."""
    command = ["-m", "oracle", "mcp", *options]
    server = StdioServerParameters(command=sys.executable, args=command)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        explained = await session.call_tool("explain", {"node": make_node_address("A")})
        refused = await session.call_tool("node", {"node": "0x" + 40 * "9"})
        (content,) = explained.content
        assert isinstance(content, TextContent)
        return names, json.loads(content.text), refused.is_error


@pytest.mark.parametrize("way", ["database", "url"])
def test_official_client_lists_and_calls_tools(sqlite_url: str, tmp_path: Path, way: str):
    settings = IDENTITY_SETTINGS | {"database": {"url": sqlite_url}}
    with Store.open(sqlite_url, create=True) as store:
        source = IndexedHistory(store).whole(History().joins("A").scores("A", 10, 5)).source
        section = ApiSection()
        with serve_app(create_read_api(source, streams=section), section, 0) as url:
            config = write_config(settings, tmp_path / "config.toml")
            options = ("--url", url) if way == "url" else ("--config", str(config))
            names, explained, is_refused = asyncio.run(call_tools(*options))
    assert names == ["network", "node", "explain", "kickouts", "rules", "task"]
    assert len(explained["explanation"]["pool"]["scores"]) == 2
    assert is_refused
