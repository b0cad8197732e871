"""Gas of every transaction that the reference network takes, measured on Anvil.

Run: .venv/bin/python tests/contracts/network_gas.py     measures, writes network_gas.json

Whole transactions are counted, base fee and input included. Everybody has joined, answered and
been credited once before, so that a figure is that of a network which has been running.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Run as a script it finds the packages beside it; so the imports below cannot stand above (E402).
sys.path.insert(0, str(ROOT))

from tests.support.evm.anvil import run_anvil  # noqa: E402
from tests.support.evm.chain import Chain, Receipt  # noqa: E402
from tests.support.evm.contests import list_created_tasks, order_second_group  # noqa: E402
from tests.support.evm.network import ETHER, Network, compute_answer, encode_word  # noqa: E402

KEPT = ROOT / "tests" / "contracts" / "network_gas.json"
SIZE = 3


class Meter:
    """A network with six nodes, and the gas of each transaction by name."""

    def __init__(self, chain: Chain) -> None:
        self.network = Network.deployed(chain)
        self.found: dict[str, int] = {}
        self._groups = 0

    def weigh(self, name: str, receipt: Receipt) -> Receipt:
        """Record the gas of a transaction; of equal names the highest counts."""
        self.found[name] = max(self.found.get(name, 0), receipt.gas)
        return receipt

    def forget(self) -> None:
        self.found = {}

    # --- scenarios ---

    def members(self) -> None:
        network = self.network
        for node in network.nodes:
            self.weigh("join", network.join(node, models=["sdxl"]))
            call = network.does.requestDownload(node, "llama")
            self.weigh("requestDownload", network.by(network.dispatcher, call))

    def alone(self) -> None:
        network = self.network
        node = self.network.nodes[0]
        task = self.created("createTask")
        self.weigh("startTask", network.start(task, node))
        self.weigh("submitResult", network.submit(task, node))
        judged = network.by(network.creator, network.does.validateTask(task))
        self.weigh("validateTask", judged)
        late = self.created("createTask")
        network.start(late, node)
        network.chain.later(301)
        self.weigh("timeOutTask", network.time_out(late))

    def created(self, name: str, **order_fields: Any) -> bytes:
        network = self.network
        call = network.does.createTask(network.order(**order_fields))
        receipt = network.by(network.creator, call, ETHER)
        self.weigh(name, receipt)
        return bytes(receipt.only("TaskCreated")["task"])

    def grouped(self, nodes: list[str], results: str) -> tuple[bytes, Any]:
        """Run a group up to its comparison; return its key and its tasks."""
        network = self.network
        self._groups = self._groups + 1
        name = encode_word(10_000 + self._groups)
        group_fields = {"group": name, "group_size": SIZE}
        first = self.created("createTask, first of a group", **group_fields)
        other_tasks = [self.created("createTask, of a group", **group_fields) for _ in nodes[1:]]
        tasks = [first, *other_tasks]
        for task, node in zip(tasks, nodes, strict=True):
            self.weigh("startTask, of a group", network.start(task, node))
        self.played(network.creator, name, dict(zip(tasks, nodes, strict=True)), results)
        return network.key(network.creator, name), tasks

    def second(self, contested: bytes, nodes: list[str], results: str) -> None:
        """Run the second group of a contest up to its comparison."""
        network = self.network
        name = encode_word(30_000)
        ordered = order_second_group(network, contested, name, nodes)
        self.weigh("probe, second group of three", ordered)
        runs = dict(zip(list_created_tasks(ordered), nodes, strict=True))
        self.played(network.dispatcher, name, runs, results)

    def played(self, creator: str, name: bytes, runs: dict[bytes, str], results: str) -> None:
        """Let the group's nodes commit and reveal, and its creator compare."""
        network = self.network
        key = self.network.key(creator, name)
        for (task, node), result in zip(runs.items(), results, strict=True):
            committed = network.commit(task, node, compute_answer(key, ord(result)))
            self.weigh("commitAnswer", committed)
        for task in runs:
            self.weigh("revealAnswer", network.reveal(task))
        compared = network.by(creator, network.does.validateGroup(name, list(runs)))
        kind = "unanimous" if len(set(results)) == 1 else "contested"
        self.weigh(f"validateGroup, three, {kind}", compared)

    def at_once(self) -> None:
        """Start a complete group after a draw; its nodes do not answer."""
        network = self.network
        name = encode_word(20_000)
        tasks = [network.create(group=name, group_size=SIZE) for _ in range(SIZE)]
        number = network.chain.block
        header = network.chain.rpc("eth_getBlockByNumber", hex(number), False)
        seed = (number, bytes.fromhex(header["hash"][2:]))
        call = network.does.startGroup(tasks, network.nodes[:SIZE], *seed)
        self.weigh("startGroup, three", network.by(network.dispatcher, call))
        network.chain.later(301)
        for task in tasks:
            network.time_out(task)

    def trial(self) -> None:
        network = self.network
        contested, tasks = self.grouped(network.nodes[:3], "AAB")
        self.second(contested, network.nodes[3:6], "AAA")
        call = network.does.settleContest(contested, tasks, encode_word(ord("A")))
        self.weigh("settleContest, one slashed", network.by(network.admin, call))

    def leaves(self) -> None:
        network = self.network
        self.weigh("quit", network.by(network.nodes[0], network.does.quit()))
        self.weigh("withdraw", network.by(network.nodes[0], network.does.withdraw()))


def measure_gas(chain: Chain) -> dict[str, int]:
    """Return the gas by the transaction's name."""
    meter = Meter(chain)
    oracle, scores = (chain.deploy("testing/PlainOracle").address for _ in range(2))
    network = meter.network
    network.by(network.admin, network.does.setOracle(oracle))
    network.by(network.admin, network.does.setScores(scores))
    meter.members()
    joined = meter.found
    for _ in range(2):
        meter.forget()
        meter.alone()
        meter.grouped(network.nodes[:3], "AAA")
        meter.grouped(network.nodes[3:], "AAA")
    meter.at_once()
    meter.trial()
    meter.leaves()
    return joined | meter.found


def main() -> int:
    with run_anvil() as url:
        chain = Chain(url)
        gas_by_name = measure_gas(chain)
        chain.close()
    KEPT.write_text(json.dumps(gas_by_name, indent=1) + "\n", "utf-8")
    for name, gas in gas_by_name.items():
        sys.stdout.write(f"{gas:>10,}  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
