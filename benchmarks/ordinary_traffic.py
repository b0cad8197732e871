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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from oracle.chain.decode.abi import load_abi  # noqa: E402
from oracle.resources import find_shipped_path  # noqa: E402
from tests.support.chain.memory_chain import MemoryChain, Said  # noqa: E402
from tests.support.chain.network_logs import NETWORK, created, group, network, node, task  # noqa: E402
from tests.support.chain.server import serving  # noqa: E402

NODES = 200
LOGS_A_BLOCK = 20
BLOCK_SECONDS = 12
SERVING = "serving "


class Network:
    """Builds logs by inserting hex words into templates; ABI encoding would take minutes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.free = deque(range(1, NODES + 1))
        self.numbers = count(1)
        self.topics = {
            name: event.digest for name, event in load_abi("TaskNetwork").events.items()
        }
        self.order = created(0).data

    def joined(self) -> list[Said]:
        hardware = {"gpuName": "NVIDIA GeForce RTX 4090", "gpuVram": 24, "models": ["sdxl"]}
        version = {"major": 2, "minor": 5, "patch": 0}
        return [
            network("NodeJoined", node=node(n), stake=400 * 10**18, **hardware, **version)
            for n in range(1, NODES + 1)
        ]

    def said(self, event: str, *arguments: str, data: str = "0x") -> Said:
        padded = ("0x" + argument[2:].rjust(64, "0") for argument in arguments)
        return Said(NETWORK, (self.topics[event], *padded), data)

    def lives(self) -> list[list[Said]]:
        """Return the logs of one group, as a list for each stage."""
        members = [(task(next(self.numbers)), node(self.free.popleft())) for _ in range(3)]
        key = group(int(members[0][0], 16))
        late = self.random.randrange(3) if self.random.random() < 0.03 else None
        creator = node(0xC0)
        begun = [self.said("TaskCreated", t, creator, key, data=self.order) for t, _ in members]
        begun += [self.said("TaskStarted", *member) for member in members]
        answered = [
            [self.said("TaskTimedOut", *member, data="0x" + "02".rjust(64, "0"))]
            if place == late
            else [self.said("TaskSubmitted", *member, data="0x" + "5e" * 32)]
            for place, member in self.random.sample(list(enumerate(members)), 3)
        ]
        well = [member for place, member in enumerate(members) if place != late]
        listed = "".join(t[2:] for t, _ in members)
        data = f"0x{32:064x}{3:064x}{listed}"
        ended = [self.said("GroupValidated", key, data=data)]
        for place, member in enumerate(well):
            ended.append(self.said("TaskValidated", member[0]))
            ended.append(self.said("TaskRefunded" if place else "TaskSucceeded", *member))
        self.free.extend(int(n, 16) for _, n in members)
        return [begun, *answered, ended]


def said_in_blocks(events: int, seed: int = 1) -> Iterator[list[Said]]:
    """Yield the logs of each block after the first, about `events` in total.

    The total may be slightly higher, because the last groups are completed.
    """
    # The traffic is the same each time, and no secret is derived from the random numbers.
    network = Network(Random(seed))  # noqa: S311
    joined = network.joined()
    yield joined
    log_count = len(joined)
    under_way: deque[list[list[Said]]] = deque()
    while log_count < events or under_way:
        block: list[Said] = []
        for _ in range(len(under_way)):
            stages = under_way.popleft()
            block += stages.pop(0)
            if stages:
                under_way.append(stages)
        while log_count + len(block) < events and len(block) < LOGS_A_BLOCK:
            begun, *stages = network.lives()
            block += begun
            under_way.append(stages)
        yield block
        log_count += len(block)


def traffic(events: int, seed: int = 1) -> MemoryChain:
    """Return a chain with about `events` logs.

    The total may be slightly higher, because the last groups are completed.
    """
    chain = MemoryChain()
    # A daemon checks the contract's code before it accepts the address.
    chain.code[NETWORK] = msgspec.json.decode(
        find_shipped_path("abi/TaskNetwork.json").read_bytes()
    )["deployedBytecode"]
    for block in said_in_blocks(events, seed):
        first = len(chain.blocks) == 1
        chain.mine(block, time=None if first else chain.blocks[-1].time + BLOCK_SECONDS)
    for _ in range(8):
        chain.mine()
    return chain


@contextmanager
def served(events: int) -> Iterator[str]:
    """Serve such a chain in a separate process within this context, and yield its URL."""
    command = [sys.executable, __file__, "--events", str(events)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(SERVING), "the process that serves the chain failed"
            yield line.removeprefix(SERVING).strip()
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    chain = traffic(parser.parse_args().events)
    with serving(chain) as endpoint:
        print(f"{SERVING}{endpoint.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
