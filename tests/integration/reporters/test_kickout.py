"""A bad node is kicked out once, by a proof of a root that two reporters signed."""

import json

import pytest

from devnet.demo.demo_nodes import HOPELESS
from oracle.chain.decode.abi import load_abi
from tests.integration.reporters.reporter_group import ReporterGroup

# Waves until its pool of fifty is full, and rounds until every delay has passed.
_WAVES, _MOST_ROUNDS = 52, 14


# Three daemons read fifty waves; in CI, the daemon of the demo executes a kickout.
@pytest.mark.nightly
def test_node_is_accused_and_kicked_out_once(three: ReporterGroup):
    three.network.play(_WAVES)
    three.start()
    for _ in range(_MOST_ROUNDS):
        if logs(three, "KickExecuted"):
            break
        three.round_of(*three.members)
    three.caught_up()

    node = three.network.stage.nodes[HOPELESS.name].lower()
    (accused,) = logs(three, "KickAccused")
    (executed,) = logs(three, "KickExecuted")
    assert executed["topics"][1] == accused["topics"][1] == "0x" + node[2:].rjust(64, "0")
    # Every reporter that wrote the evidence of this interval wrote the same.
    due_since = int(accused["data"][2:][64:128], 16)
    files = [
        file
        for member in three.members
        if (file := member.folder / "evidence" / f"{node}-{due_since}.json").exists()
    ]
    assert files
    assert len({file.read_bytes() for file in files}) == 1
    assert json.loads(files[0].read_text())["node"] == node
    three.check_digests()


def logs(three: ReporterGroup, event: str) -> list[dict[str, str]]:
    """Return the contract's events of this name."""
    topic = load_abi("roots/QoSRoots").get_event(event).digest
    log_filter = {"address": three.contract, "fromBlock": "0x0", "topics": [topic]}
    return list(three.network.stage.chain.make_request("eth_getLogs", log_filter))
