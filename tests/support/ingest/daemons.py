"""Configurations of complete daemons that follow a `FakeChain`."""

from pathlib import Path

from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.cli.local_network import Settings, write_config
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID, FINALITY


def build_daemon_settings(chain: FakeChain, folder: Path) -> Settings:
    """Return settings of a daemon that only indexes into `folder`; change them, then `write`."""
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {
            "id": CHAIN_ID,
            "endpoints": list(chain.urls),
            "finality_depth": FINALITY,
            "poll_seconds": 0.05,
        },
        "network": {"contracts": {"TaskNetwork": NETWORK}},
        "oracle": {"address": ORACLE},
        "web": {"port": 0},
        "log": {"format": "json"},
    }


def write_daemon_config(chain: FakeChain, folder: Path) -> Path:
    """Return a valid configuration with an empty database."""
    return write_config(build_daemon_settings(chain, folder), folder / "config.toml")
