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
        self.gas_by_name: dict[str, int] = {}
        self._groups = 0

    def record_gas(self, name: str, receipt: Receipt) -> Receipt:
        """Record the gas of a transaction; of equal names the highest counts."""
        self.gas_by_name[name] = max(self.gas_by_name.get(name, 0), receipt.gas)
        return receipt

    def clear(self) -> None:
        self.gas_by_name = {}

    # --- scenarios ---

    def measure_joins(self) -> None:
        network = self.network
        for node in network.nodes:
            self.record_gas("join", network.join(node, models=["sdxl"]))
            call = network.does.requestDownload(node, "llama")
            self.record_gas("requestDownload", network.by(network.dispatcher, call))

    def measure_single_task(self) -> None:
        network = self.network
        node = self.network.nodes[0]
        task = self.create_task("createTask")
        self.record_gas("startTask", network.start(task, node))
        self.record_gas("submitResult", network.submit(task, node))
        judged = network.by(network.creator, network.does.validateTask(task))
        self.record_gas("validateTask", judged)
        late = self.create_task("createTask")
        network.start(late, node)
        network.chain.later(301)
        self.record_gas("timeOutTask", network.time_out(late))

    def create_task(self, name: str, **order_fields: Any) -> bytes:
        network = self.network
        call = network.does.createTask(network.order(**order_fields))
        receipt = network.by(network.creator, call, ETHER)
        self.record_gas(name, receipt)
        return bytes(receipt.only("TaskCreated")["task"])

    def run_group(self, nodes: list[str], results: str) -> tuple[bytes, Any]:
        """Run a group up to its comparison; return its key and its tasks."""
        network = self.network
        self._groups = self._groups + 1
        name = encode_word(10_000 + self._groups)
        group_fields = {"group": name, "group_size": SIZE}
        first = self.create_task("createTask, first of a group", **group_fields)
        other_tasks = [
            self.create_task("createTask, of a group", **group_fields) for _ in nodes[1:]
        ]
        tasks = [first, *other_tasks]
        for task, node in zip(tasks, nodes, strict=True):
            self.record_gas("startTask, of a group", network.start(task, node))
        self.answer_and_compare(
            network.creator, name, dict(zip(tasks, nodes, strict=True)), results
        )
        return network.key(network.creator, name), tasks

    def run_second_group(self, contested: bytes, nodes: list[str], results: str) -> None:
        """Run the second group of a contest up to its comparison."""
        network = self.network
        name = encode_word(30_000)
        ordered = order_second_group(network, contested, name, nodes)
        self.record_gas("probe, second group of three", ordered)
        runs = dict(zip(list_created_tasks(ordered), nodes, strict=True))
        self.answer_and_compare(network.dispatcher, name, runs, results)

    def answer_and_compare(
        self, creator: str, name: bytes, runs: dict[bytes, str], results: str
    ) -> None:
        """Let the group's nodes commit and reveal, and its creator compare."""
        network = self.network
        key = self.network.key(creator, name)
        for (task, node), result in zip(runs.items(), results, strict=True):
            committed = network.commit(task, node, compute_answer(key, ord(result)))
            self.record_gas("commitAnswer", committed)
        for task in runs:
            self.record_gas("revealAnswer", network.reveal(task))
        compared = network.by(creator, network.does.validateGroup(name, list(runs)))
        kind = "unanimous" if len(set(results)) == 1 else "contested"
        self.record_gas(f"validateGroup, three, {kind}", compared)

    def measure_group_start(self) -> None:
        """Start a complete group after a draw; its nodes do not answer."""
        network = self.network
        name = encode_word(20_000)
        tasks = [network.create(group=name, group_size=SIZE) for _ in range(SIZE)]
        number = network.chain.block
        header = network.chain.rpc("eth_getBlockByNumber", hex(number), False)
        seed = (number, bytes.fromhex(header["hash"][2:]))
        call = network.does.startGroup(tasks, network.nodes[:SIZE], *seed)
        self.record_gas("startGroup, three", network.by(network.dispatcher, call))
        network.chain.later(301)
        for task in tasks:
            network.time_out(task)

    def measure_contest(self) -> None:
        network = self.network
        contested, tasks = self.run_group(network.nodes[:3], "AAB")
        self.run_second_group(contested, network.nodes[3:6], "AAA")
        call = network.does.settleContest(contested, tasks, encode_word(ord("A")))
        self.record_gas("settleContest, one slashed", network.by(network.admin, call))

    def measure_quit(self) -> None:
        network = self.network
        self.record_gas("quit", network.by(network.nodes[0], network.does.quit()))
        self.record_gas("withdraw", network.by(network.nodes[0], network.does.withdraw()))


def measure_gas(chain: Chain) -> dict[str, int]:
    """Return the gas by the transaction's name."""
    meter = Meter(chain)
    oracle, scores = (chain.deploy("testing/PlainOracle").address for _ in range(2))
    network = meter.network
    network.by(network.admin, network.does.setOracle(oracle))
    network.by(network.admin, network.does.setScores(scores))
    meter.measure_joins()
    joined = meter.gas_by_name
    for _ in range(2):
        meter.clear()
        meter.measure_single_task()
        meter.run_group(network.nodes[:3], "AAA")
        meter.run_group(network.nodes[3:], "AAA")
    meter.measure_group_start()
    meter.measure_contest()
    meter.measure_quit()
    return joined | meter.gas_by_name


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
