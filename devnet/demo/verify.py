"""Verifies that every score on chain follows from the chain's own logs, without the daemon.

Run as a process: `python -m devnet.demo.verify URL NETWORK ORACLE SYSTEM`. It reads `eth_getLogs`,
the time of one block and `scoreOf`, never the database; scores are recomputed by `qos-oracle
replay` from JSON lines.
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
from oracle.bindings.codec import decode_result, encode_call
from oracle.chain.decode.abi import load_abi
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log
from oracle.errors import FatalError

# Decimal digits of a QoS on chain: scoreOf returns 1/10,000.
_DIGITS = 4
# The contract's answer for a node without a score: the node is selectable.
_NEWCOMER = True, 0


@dataclass(frozen=True, slots=True)
class Compared:
    """One node: its recomputed score and the answer of `scoreOf`.

    Both are pairs `(selectable, QoS in 1/10,000)`.
    """

    node: Address
    recomputed: tuple[bool, int]
    on_chain: tuple[bool, int]

    @property
    def is_equal(self) -> bool:
        return self.recomputed == self.on_chain


@dataclass(frozen=True, slots=True)
class ScoreVerification:
    """The last round, its as-of block, and every node of the network."""

    round: int
    as_of: int
    events: int
    nodes: tuple[Compared, ...]

    @property
    def wrong(self) -> tuple[Compared, ...]:
        return tuple(one for one in self.nodes if not one.is_equal)

    def to_json(self) -> str:
        """Return the verification as JSON, for the parent process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ScoreVerification":
        """Read what `to_json` returned."""
        written = json.loads(text)
        nodes = (
            Compared(Address(one["node"]), tuple(one["recomputed"]), tuple(one["on_chain"]))
            for one in written["nodes"]
        )
        return cls(written["round"], written["as_of"], written["events"], tuple(nodes))


def verify(
    url: str, network: Address, oracle: Address, system: DemoSystem = CRYNUX_SYSTEM
) -> ScoreVerification:
    """Compare `scoreOf` of every node that ever joined with a replay of the network's logs.

    The last round covers all nodes, so its as-of block is valid for all of them.

    Raises:
        FatalError: no round was accepted yet, or the replay failed.
    """
    chain = LocalChain(url)
    try:
        accepted = _logs(chain, oracle, load_abi("QoSOracle").get_event("RoundAccepted").digest)
        if not accepted:
            raise FatalError("the oracle contract has accepted no round")
        round_, as_of = int(accepted[-1]["topics"][1], 16), int(accepted[-1]["data"][2:66], 16)
        time = int(chain.ask("eth_getBlockByNumber", hex(as_of), False)["timestamp"], 16)
        reader = EventReader.from_profile("reference", {"TaskNetwork": network}, None)
        events = reader.decode_rows([_log(one) for one in _logs(chain, network)], []).events
        replayed = _replayed([event_to_json(event) for event in events], time, system)
        nodes = tuple(_compared(chain, oracle, node) for node in replayed)
        return ScoreVerification(round_, as_of, len(events), nodes)
    finally:
        chain.close()


def verdict_of(
    url: str, network: Address, oracle: Address, system: DemoSystem = CRYNUX_SYSTEM
) -> ScoreVerification:
    """Run `verify_scores` in a separate process.

    Raises:
        FatalError: the verification failed; the message is the last line of its output.
    """
    asked = [url, network, oracle, system.name]
    command = [sys.executable, "-m", "devnet.demo.verify", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        raise FatalError(f"the check found no verdict: {_last_line(done.stderr)}")
    return ScoreVerification.from_json(done.stdout)


def _logs(chain: LocalChain, address: Address, *topics: str) -> list[dict[str, Any]]:
    asked = {"address": address, "fromBlock": "0x0", "toBlock": "latest", "topics": list(topics)}
    found: list[dict[str, Any]] = chain.ask("eth_getLogs", asked)
    return found


def _log(given: dict[str, Any]) -> Log:
    return Log(
        block=int(given["blockNumber"], 16),
        block_hash=Hash(given["blockHash"]),
        time=int(given["blockTimestamp"], 16),
        tx=int(given["transactionIndex"], 16),
        tx_hash=Hash(given["transactionHash"]),
        index=int(given["logIndex"], 16),
        address=Address(given["address"].lower()),
        topics=tuple(given["topics"]),
        data=given["data"],
    )


def _replayed(lines: Sequence[str], time: int, system: DemoSystem) -> list[dict[str, Any]]:
    """Return what `qos-oracle replay` prints about the nodes at `time`."""
    with tempfile.TemporaryDirectory(prefix="qos-oracle-replay-") as folder:
        written = Path(folder) / "events.jsonl"
        written.write_text("\n".join(lines) + "\n", "utf-8")
        asked = ["replay", str(written), "--at", str(time), *system.replay_options]
        command = [sys.executable, "-m", "oracle", *asked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        raise FatalError(f"qos-oracle replay failed: {_last_line(done.stderr)}")
    nodes: list[dict[str, Any]] = json.loads(done.stdout)["nodes"]
    return nodes


def _compared(chain: LocalChain, oracle: Address, replayed: dict[str, Any]) -> Compared:
    node = Address(replayed["node"])
    asked = {"to": oracle, "data": encode_call("QoSOracle", "scoreOf", node)}
    answer = chain.ask("eth_call", asked, "latest")
    known, selectable, qos, *_ = decode_result("QoSOracle", "scoreOf", answer)
    wanted = _wanted(replayed) if known or replayed["task_scores"] else _NEWCOMER
    return Compared(node, wanted, (bool(selectable), int(qos)))


def _wanted(replayed: dict[str, Any]) -> tuple[bool, int]:
    """Return the score expected in a report.

    Nodes that left, are paused or excluded are not selectable.
    """
    if replayed["qos"] is None or replayed["status"] == "paused" or replayed["excluded"]:
        return False, 0
    whole, fraction = replayed["qos"].split(".")
    return True, int(whole + fraction[:_DIGITS])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def main(arguments: Sequence[str]) -> int:
    """Print the verification as JSON; return 1 with a one-line message if it fails."""
    url, network, oracle, system = arguments
    try:
        verdict = verify(url, Address(network), Address(oracle), DEMO_SYSTEMS[system])
    except FatalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(verdict.to_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
