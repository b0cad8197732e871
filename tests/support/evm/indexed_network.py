"""The reference network on Anvil, and what the daemon shows of it: `explain` and the pages."""

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from oracle.cli.main import run
from tests.support.cli.daemon import serve_config
from tests.support.cli.local_network import write_config
from tests.support.evm.chain import Chain
from tests.support.evm.network import Network

_FINALITY_DEPTH = 2


class IndexedNetwork:
    """A new network, and a daemon that indexes it into a new database.

    The rules are the default rules with the changes passed to `change_rules`.
    """

    def __init__(self, chain: Chain, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.network = Network.deployed(chain)
        self._folder, self._capsys = folder, capsys
        self._settings: dict[str, dict[str, Any]] = {
            "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
            "chain": {
                "id": 31337,
                "endpoints": [chain.url],
                "finality_depth": _FINALITY_DEPTH,
            },
            "network": {"contracts": {"TaskNetwork": str(self.network.contract.address)}},
            "web": {"port": 0},
            "api": {"port": 0},
            "log": {"format": "json"},
        }
        self._config = write_config(self._settings, folder / "config.toml")

    def change_rules(self, **rules: str) -> None:
        """Set these rules; must be called before anything is indexed."""
        self._settings["rules"] = {"change": rules}
        write_config(self._settings, self._config)

    def index(self) -> None:
        """Index all blocks."""
        self.read_output("run", "--once")

    def read_output(self, *command: str) -> str:
        """Run a command of the CLI and return its output."""
        assert run([*command, "--config", str(self._config)]) == 0
        return self._capsys.readouterr().out

    def explain(self, node: str) -> Any:
        """Return the JSON of `explain`."""
        return json.loads(self.read_output("explain", node, "--json"))

    def load_page(self, node: str) -> str:
        """Return the HTML of the node's page, from a process that serves the database."""
        with serve_config(self._config, self._folder / "serve.log") as address:
            response = requests.get(f"{address}/nodes/{node.lower()}", timeout=60)
        assert response.status_code == 200, response.text
        return response.text
