"""The bundle of a node on a local network, and what a reader has besides it."""

import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devnet.anvil import CHAIN_ID
from oracle.cli.main import run
from tests.support.bundles import Bundle
from tests.support.cli.local_network import LocalNetwork, write_config

Json = dict[str, Any]


@dataclass(frozen=True)
class ReaderEvidence:
    """The bundle of a node with scores in the newest round, and its reader's other evidence.

    `anchor` is what the reader enters on the page `/verify`.
    """

    bundle: Bundle
    events: list[Json] | None
    anchor: Json


def bundle_first_node(network: LocalNetwork, folder: Path) -> ReaderEvidence:
    """Let a daemon report three rounds, and bundle the first node in the newest."""
    config = write_config(network.settings(folder), folder / "config.toml")
    for _ in range(3):
        assert run(["run", "--once", "--publish", "--config", str(config)]) == 0
        network.play(2)
    assert run(["run", "--once", "--config", str(config)]) == 0
    node = next(iter(network.stage.nodes.values()))
    bundle = load_bundle(config, node, folder / "bundle.json")
    assert bundle["scores"]
    exported = io.StringIO()
    with redirect_stdout(exported):
        assert run(["export", "--config", str(config)]) == 0
    anchor = {
        "contract": network.stage.oracle,
        "chain_id": CHAIN_ID,
        "network_contracts": [network.stage.network],
        "chosen_round": None,
    }
    events = [json.loads(line) for line in exported.getvalue().splitlines()]
    return ReaderEvidence(bundle, events, anchor)


def load_bundle(config: Path, node: str, path: Path, *options: str) -> Bundle:
    """Return the bundle that `proof --bundle` writes."""
    command = ["proof", node, "--bundle", str(path), "--config", str(config)]
    assert run([*command, *options]) == 0
    bundle: Bundle = json.loads(path.read_text("utf-8"))
    return bundle
