"""Verifies every node's score on chain, and compares it with a replay of the logs.

The module runs as a process, `python -m devnet.demo.verify URL NETWORK ORACLE API SYSTEM`. The
process reads `eth_getLogs`, the time of one block and the oracle's root, but never the database.
`qos-oracle replay` recomputes the scores from JSON lines. Leaves and proofs come from the HTTP
API, which need not be trusted, because QoSProof verifies them in the EVM against the root on
chain.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devnet.anvil import LocalChain
from devnet.demo.demo_system import CRYNUX_SYSTEM, DEMO_SYSTEMS, DemoSystem
from devnet.demo.node_proofs import fetch_node_proof, verify_proof_on_chain
from oracle.chain.decode.abi import load_abi
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE
from oracle.errors import FatalError

# On-chain QoS has four decimals (unit 1/10,000).
_QOS_DIGITS = 4
# A consumer should see this for a node without a leaf: the node is selectable and has no score.
_UNSCORED_NODE = True, 0


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """The recomputed score of a node, and the score in its leaf.

    `is_proven` is whether the leaf was proven. Both scores are pairs `(selectable, QoS in
    1/10,000)`.
    """

    node: Address
    recomputed: tuple[bool, int]
    in_leaf: tuple[bool, int]
    is_proven: bool

    @property
    def is_equal(self) -> bool:
        return self.recomputed == self.in_leaf


@dataclass(frozen=True, slots=True)
class ScoreVerification:
    """The last accepted round, its as-of block, and the scores of every node."""

    round: int
    as_of: int
    events: int
    nodes: tuple[ScoreComparison, ...]

    def to_json(self) -> str:
        """Encode the verification as JSON for the parent process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ScoreVerification":
        """Decode a verification from the output of `to_json`."""
        fields = json.loads(text)
        nodes = (
            ScoreComparison(
                Address(comparison["node"]),
                tuple(comparison["recomputed"]),
                tuple(comparison["in_leaf"]),
                comparison["is_proven"],
            )
            for comparison in fields["nodes"]
        )
        return cls(fields["round"], fields["as_of"], fields["events"], tuple(nodes))


def verify_scores(
    url: str,
    contracts: tuple[Address, Address],
    api_url: str,
    system: DemoSystem = CRYNUX_SYSTEM,
) -> ScoreVerification:
    """Verify the proof of every node that ever joined.

    Each leaf is compared with a replay. `contracts` are the addresses of the network, whose logs
    are replayed, and of the oracle. The last round's root covers all nodes, so all scores are
    compared as of its block.

    Raises:
        FatalError: no round was accepted yet, or the replay failed.
    """
    network, oracle = contracts
    chain = LocalChain(url)
    try:
        round_logs = _fetch_logs(
            chain, oracle, load_abi("roots/QoSRoots").get_event("RoundAccepted").digest
        )
        if not round_logs:
            raise FatalError("the oracle contract has not accepted any round")
        round_number = int(round_logs[-1]["topics"][1], 16)
        as_of_block = int(round_logs[-1]["data"][2:66], 16)
        block_time = int(
            chain.make_request("eth_getBlockByNumber", hex(as_of_block), False)["timestamp"], 16
        )
        reader = EventReader.from_profile("reference", {"TaskNetwork": network}, None)
        events = reader.decode_rows(
            [_parse_log(log) for log in _fetch_logs(chain, network)], []
        ).events
        replayed_nodes = _replay_events(
            [event_to_json(event) for event in events], block_time, system
        )
        verified_nodes = tuple(
            _verify_node_score(chain, oracle, (api_url, round_number), node)
            for node in replayed_nodes
        )
        return ScoreVerification(round_number, as_of_block, len(events), verified_nodes)
    finally:
        chain.close()


def run_verification(
    url: str,
    contracts: tuple[Address, Address],
    api_url: str,
    system: DemoSystem = CRYNUX_SYSTEM,
) -> ScoreVerification:
    """Run `verify_scores` in a separate process.

    Raises:
        FatalError: the verification failed; the message is the last line of its output.
    """
    arguments = [url, *contracts, api_url, system.name]
    command = [sys.executable, "-m", "devnet.demo.verify", *arguments]
    completed_process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if completed_process.returncode:
        raise FatalError(f"the verification failed: {_get_last_line(completed_process.stderr)}")
    return ScoreVerification.from_json(completed_process.stdout)


def _fetch_logs(chain: LocalChain, address: Address, *topics: str) -> list[dict[str, Any]]:
    log_filter = {
        "address": address,
        "fromBlock": "0x0",
        "toBlock": "latest",
        "topics": list(topics),
    }
    logs: list[dict[str, Any]] = chain.make_request("eth_getLogs", log_filter)
    return logs


def _parse_log(log_json: dict[str, Any]) -> Log:
    return Log(
        block=int(log_json["blockNumber"], 16),
        block_hash=Hash(log_json["blockHash"]),
        time=int(log_json["blockTimestamp"], 16),
        tx=int(log_json["transactionIndex"], 16),
        tx_hash=Hash(log_json["transactionHash"]),
        index=int(log_json["logIndex"], 16),
        address=Address(log_json["address"].lower()),
        topics=tuple(log_json["topics"]),
        data=log_json["data"],
    )


def _replay_events(
    lines: Sequence[str], block_time: int, system: DemoSystem
) -> list[dict[str, Any]]:
    """Return what `qos-oracle replay` prints about the nodes at `block_time`."""
    with tempfile.TemporaryDirectory(prefix="qos-oracle-replay-") as folder:
        events_path = Path(folder) / "events.jsonl"
        events_path.write_text("\n".join(lines) + "\n", "utf-8")
        arguments = ["replay", str(events_path), "--at", str(block_time), *system.replay_options]
        command = [sys.executable, "-m", "oracle", *arguments]
        completed_process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if completed_process.returncode:
        raise FatalError(f"qos-oracle replay failed: {_get_last_line(completed_process.stderr)}")
    nodes: list[dict[str, Any]] = json.loads(completed_process.stdout)["nodes"]
    return nodes


def _verify_node_score(
    chain: LocalChain,
    oracle: Address,
    url_and_round: tuple[str, int],
    replayed_node: dict[str, Any],
) -> ScoreComparison:
    """Verify a node's score.

    `url_and_round` is the URL of the API and the number of the round.
    """
    node = Address(replayed_node["node"])
    (api_url, round_number) = url_and_round
    proof = fetch_node_proof(api_url, node, round_number)
    if proof is None:
        raise FatalError(f"{api_url}: no proof of node {node} in round {round_number}")
    in_leaf = _UNSCORED_NODE if proof.is_absent else _decode_lane(proof.leaf.lane)
    expected_score = _UNSCORED_NODE if proof.is_absent else _compute_expected_score(replayed_node)
    return ScoreComparison(
        node, expected_score, in_leaf, verify_proof_on_chain(chain, oracle, node, proof)
    )


def _decode_lane(lane: int) -> tuple[bool, int]:
    return (False, 0) if lane == DO_NOT_SELECT else (True, lane - LOWEST_SCORE)


def _compute_expected_score(replayed_node: dict[str, Any]) -> tuple[bool, int]:
    """Compute the score to expect in a node's leaf, as `(selectable, QoS in 1/10,000)`.

    A node that has left, is paused or is excluded is not selectable.
    """
    if (
        replayed_node["qos"] is None
        or replayed_node["status"] == "paused"
        or replayed_node["excluded"]
    ):
        return False, 0
    integer_part, fraction = replayed_node["qos"].split(".")
    return True, int(integer_part + fraction[:_QOS_DIGITS])


def _get_last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def main(arguments: Sequence[str]) -> int:
    """Print the verification as JSON, or return 1 with a one-line message if it fails."""
    url, network, oracle, api_url, system = arguments
    try:
        verification = verify_scores(
            url, (Address(network), Address(oracle)), api_url, DEMO_SYSTEMS[system]
        )
    except FatalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(verification.to_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
