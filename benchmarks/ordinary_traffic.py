"""A chain with ordinary traffic of the reference network, served from memory.

Run: .venv/bin/python benchmarks/ordinary_traffic.py --events 200000   (prints its URL)
Two hundred nodes work in groups of three, whose tasks are created, started, submitted, validated
and ended; about one task in a hundred times out. A block has about twenty logs, each in its own
transaction.
"""

import argparse
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

import msgspec

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from oracle.chain.decode.abi import load_abi  # noqa: E402
from oracle.resources import find_shipped_path  # noqa: E402
from tests.support.chain.memory_chain import MemoryChain, UnminedLog  # noqa: E402
from tests.support.chain.network_logs import (  # noqa: E402
    NETWORK,
    encode_network_log,
    encode_task_created_log,
    make_group_key,
    make_node_address,
    make_task_key,
)
from tests.support.chain.server import serve_memory_chain  # noqa: E402

NODES = 200
LOGS_PER_BLOCK = 20
# Share of groups in which one of the three tasks times out.
LATE_SHARE = 0.03
BLOCK_SECONDS = 12
URL_PREFIX = "serving "


class Network:
    """Builds logs by inserting hex words into templates, because ABI encoding takes minutes."""

    def __init__(self, random: Random, nodes: int = NODES) -> None:
        self.random = random
        self.free_nodes = deque(range(1, nodes + 1))
        self.task_numbers = count(1)
        self.topics = {
            name: event.digest for name, event in load_abi("TaskNetwork").events.items()
        }
        self.order_data = encode_task_created_log(0).data

    def build_joins(self) -> list[UnminedLog]:
        gpu_fields = {"gpuName": "NVIDIA GeForce RTX 4090", "gpuVram": 24, "models": ["sdxl"]}
        version_fields = {"major": 2, "minor": 5, "patch": 0}
        return [
            encode_network_log(
                "NodeJoined",
                node=make_node_address(number),
                stake=400 * 10**18,
                **gpu_fields,
                **version_fields,
            )
            for number in range(1, NODES + 1)
        ]

    def build_log(self, event: str, *arguments: str, data: str = "0x") -> UnminedLog:
        padded_arguments = ("0x" + argument[2:].rjust(64, "0") for argument in arguments)
        return UnminedLog(NETWORK, (self.topics[event], *padded_arguments), data)

    def build_group_stages(self, late_share: float = LATE_SHARE) -> list[list[UnminedLog]]:
        """Return one group's logs, as a list for each stage of its tasks.

        `late_share` is the probability that one of its tasks times out.
        """
        task_and_node_keys = [
            (make_task_key(next(self.task_numbers)), make_node_address(self.free_nodes.popleft()))
            for _ in range(3)
        ]
        key = make_group_key(int(task_and_node_keys[0][0], 16))
        late_index = self.random.randrange(3) if self.random.random() < late_share else None
        creator = make_node_address(0xC0)
        start_logs = [
            self.build_log("TaskCreated", task_key, creator, key, data=self.order_data)
            for task_key, _ in task_and_node_keys
        ]
        start_logs += [self.build_log("TaskStarted", *member) for member in task_and_node_keys]
        answer_stages = [
            [self.build_log("TaskTimedOut", *member, data="0x" + "02".rjust(64, "0"))]
            if index == late_index
            else [self.build_log("TaskSubmitted", *member, data="0x" + "5e" * 32)]
            for index, member in self.random.sample(list(enumerate(task_and_node_keys)), 3)
        ]
        answered_members = [
            member for index, member in enumerate(task_and_node_keys) if index != late_index
        ]
        member_keys = "".join(task_key[2:] for task_key, _ in task_and_node_keys)
        event_data = f"0x{32:064x}{3:064x}{member_keys}"
        end_logs = [self.build_log("GroupValidated", key, data=event_data)]
        for index, member in enumerate(answered_members):
            end_logs.append(self.build_log("TaskValidated", member[0]))
            end_logs.append(self.build_log("TaskRefunded" if index else "TaskSucceeded", *member))
        self.free_nodes.extend(int(address, 16) for _, address in task_and_node_keys)
        return [start_logs, *answer_stages, end_logs]


def iterate_block_logs(events: int, seed: int = 1) -> Iterator[list[UnminedLog]]:
    """Yield the logs of each block after the first, about `events` in total.

    The total may be slightly higher, because the last groups are completed.
    """
    # The traffic must be the same every time. The random numbers are not secret.
    network = Network(Random(seed))  # noqa: S311
    joins = network.build_joins()
    yield joins
    log_count = len(joins)
    running_groups: deque[list[list[UnminedLog]]] = deque()
    while log_count < events or running_groups:
        block_logs: list[UnminedLog] = []
        for _ in range(len(running_groups)):
            stages = running_groups.popleft()
            block_logs += stages.pop(0)
            if stages:
                running_groups.append(stages)
        while log_count + len(block_logs) < events and len(block_logs) < LOGS_PER_BLOCK:
            start_logs, *stages = network.build_group_stages()
            block_logs += start_logs
            running_groups.append(stages)
        yield block_logs
        log_count += len(block_logs)


def create_chain(events: int, seed: int = 1) -> MemoryChain:
    """Return a chain with about `events` logs.

    The total may be slightly higher, because the last groups are completed.
    """
    chain = MemoryChain()
    # A daemon checks the contract's code before it accepts the address.
    chain.code[NETWORK] = msgspec.json.decode(
        find_shipped_path("abi/TaskNetwork.json").read_bytes()
    )["deployedBytecode"]
    for block in iterate_block_logs(events, seed):
        is_first = len(chain.blocks) == 1
        chain.mine(block, time=None if is_first else chain.blocks[-1].time + BLOCK_SECONDS)
    for _ in range(8):
        chain.mine()
    return chain


@contextmanager
def serve_chain(events: int) -> Iterator[str]:
    """Serve a chain with about `events` logs from a separate process, and yield its URL."""
    command = [sys.executable, __file__, "--events", str(events)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(URL_PREFIX), "the process that serves the chain failed"
            yield line.removeprefix(URL_PREFIX).strip()
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    chain = create_chain(parser.parse_args().events)
    with serve_memory_chain(chain) as endpoint:
        print(f"{URL_PREFIX}{endpoint.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
