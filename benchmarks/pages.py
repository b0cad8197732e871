"""Measure the CPU time of each page and each `/v1` response in a network of 100,000 nodes.

Run: .venv/bin/python benchmarks/pages.py [--nodes 100000] [--recovering 5000]
Synthetic logs are decoded, folded and committed into a SQLite database: every node joins and works
in a group, two days later `--recovering` nodes time out within an hour, and the contract accepts a
round before the timeouts and one after them. `qos-oracle serve` then serves the database. The
figures are the CPU time that the server uses from a request to the end of its response, without
the client. The figure of a page is the fastest of three requests, each after a new block in which
about a hundred nodes got a score. The baseline is the first request of the page after the start of
the server; the first requests are sent in the order of `PATHS`, and a page also uses what the
pages before it have loaded. The benchmark needs Linux, to read the CPU clock of the server.
"""

import argparse
import sys
import tempfile
import time
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.ordinary_traffic import BLOCK_SECONDS, LATE_SHARE, Network  # noqa: E402
from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from benchmarks.segments import CHAIN_ID, CONTRACTS  # noqa: E402
from benchmarks.selection import GPUS  # noqa: E402
from benchmarks.viewers import ApiServer, serve_database  # noqa: E402
from oracle.chain.fetch.fetcher import BlockWindow  # noqa: E402
from oracle.chain.heads import Heads  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.daemon.wall_clock import unix_seconds  # noqa: E402
from oracle.domain.blocks import BlockRange, BlockRef  # noqa: E402
from oracle.domain.fixed_point import UNIT  # noqa: E402
from oracle.domain.ids import ZERO_HASH, Address, Hash  # noqa: E402
from oracle.domain.logs import Log  # noqa: E402
from oracle.domain.reports.report import ReportSettings  # noqa: E402
from oracle.domain.scoring.node_scores import compute_reliability  # noqa: E402
from oracle.indexer.commit import commit_window  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.rules_binding import bind_or_check_rules  # noqa: E402
from oracle.reporting.report_cutter import ReportCutter  # noqa: E402
from oracle.signing.typed_data import Domain  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.memory_chain import UnminedLog  # noqa: E402
from tests.support.chain.network_logs import (  # noqa: E402
    ORACLE,
    encode_network_log,
    encode_oracle_log,
    make_group_key,
    make_node_address,
    make_task_key,
)
from tests.support.rounds import CONFIG  # noqa: E402

TARGET_NODES, TARGET_MS = 100_000, 100.0
RECOVERING_ONE_IN = 20
# Blocks are small, because an explanation reads the logs of whole blocks.
JOINS_PER_BLOCK, GROUPS_PER_BATCH = 500, 100
# After 89 time constants without a timeout (less than two days), reliability is exactly 1 again.
HISTORY_SECONDS, HEALING_SECONDS, TIMEOUT_SECONDS = 28_800, 2 * 86_400, 3_600
TIMEOUT_BATCHES = 60
# A group has three nodes, so this is about a hundred tasks per block.
GROUPS_PER_NEW_BLOCK = 34
REQUESTS = 3
DOMAIN = Domain(CHAIN_ID, ORACLE)
# The period is so short that any two reports are in different periods.
SETTINGS = ReportSettings(period_seconds=1)
# The server contacts no endpoint for these pages.
UNUSED_ENDPOINT = "http://127.0.0.1:1"
# From linux/posix-timers.h: selects the clock of a process that counts the CPU time of all its
# threads.
CPUCLOCK_SCHED = 2
PATHS = (
    "/",
    "/nodes",
    "/nodes?state=excluded",
    "/nodes?state=recovering",
    "/nodes/{node}",
    "/nodes/{node}/feed.atom",
    "/tasks/{task}",
    "/rounds",
    "/rounds/2",
    "/signers",
    "/kickouts",
    "/objections",
    "/draws",
    "/health",
    "/rules",
    "/docs",
    "/verify",
    "/v1/network",
    "/v1/nodes",
    "/v1/nodes?sort=long_term",
    "/v1/nodes?sort=reliability",
    "/v1/nodes?sort=scored",
    "/v1/nodes?sort=changed_at",
    "/v1/nodes?sort=address",
    "/v1/nodes?gpu=4090",
    "/v1/nodes/{node}",
    "/v1/nodes/{node}/advice",
    "/v1/nodes/{node}/rules",
    "/v1/nodes/{node}/history",
    "/v1/nodes/{node}/past",
    "/v1/nodes/{node}/proof",
    "/v1/nodes/{node}/explain",
    "/v1/tasks/{task}",
    "/v1/groups/{group}",
    "/v1/rounds",
    "/v1/rounds/2",
    "/v1/rounds/2/leaves",
    "/v1/signers",
    "/v1/incidents",
    "/v1/kickouts",
    "/v1/objections",
    "/v1/draws",
    "/v1/rules",
    "/v1/rules/history",
    "/v1/rules/previews",
    "/v1/status",
)


class SyntheticIndex:
    """A database that receives blocks of synthetic logs, as in a daemon.

    `next_time` is the time of the next block.
    """

    def __init__(self, store: Store, node_count: int, first_time: int) -> None:
        self._store = store
        self._reader = EventReader.from_profile("reference", CONTRACTS, ORACLE)
        self._folder = EventFolder(CRYNUX, self._reader)
        self._head = BlockRef(-1, ZERO_HASH, ZERO_HASH, first_time)
        self.next_time = first_time
        # The traffic must be the same every time. The random numbers are not secret.
        self._random = Random(1)  # noqa: S311
        self._network = Network(self._random, node_count)
        with store.transaction() as uow:
            uow.identity.ensure_stored_identity(
                Identity(CHAIN_ID, ZERO_HASH, dict(CONTRACTS), ORACLE, 0)
            )
            bind_or_check_rules(uow, CRYNUX)

    def commit_block(self, logs: list[UnminedLog]) -> None:
        """Commit a block with these logs; each log has its own transaction."""
        number = self._head.number + 1
        block = BlockRef(number, build_hash("block", number), self._head.hash, self.next_time)
        window = BlockWindow(
            BlockRange(number, number),
            self._head.hash,
            block,
            [block],
            [
                Log(
                    number,
                    block.hash,
                    block.time,
                    index,
                    build_hash(f"transaction {index}", number),
                    index,
                    Address(log.address),
                    log.topics,
                    log.data,
                )
                for index, log in enumerate(logs)
            ],
            calls=[],
        )
        with self._store.read_transaction() as uow:
            cursor = uow.cursor.get()
        commit_window(
            self._store,
            self._folder,
            window,
            heads=Heads(block, None, block),
            cursor=cursor,
            clock=time.perf_counter,
        )
        self._head = block
        self.next_time += BLOCK_SECONDS

    def commit_history(self, node_count: int, recovering_count: int, end_time: int) -> None:
        """Commit the joins, a score for each node, the timeouts until `end_time`, and two rounds.

        The first round precedes the timeouts, and the second one follows them.
        """
        self.commit_joins()
        for _ in range(-(-node_count // (3 * GROUPS_PER_BATCH))):
            self.commit_groups(GROUPS_PER_BATCH, LATE_SHARE)
        self.next_time = end_time - TIMEOUT_SECONDS - BLOCK_SECONDS
        self.accept_round()
        for batch, count in enumerate(divide_evenly(recovering_count, TIMEOUT_BATCHES)):
            self.next_time = (
                end_time - TIMEOUT_SECONDS + batch * TIMEOUT_SECONDS // TIMEOUT_BATCHES
            )
            self.commit_groups(count, late_share=1.0)
        self.accept_round()

    def commit_joins(self) -> None:
        """Let every node join, each with one of several GPUs and its own stake."""
        data_by_gpu = [
            encode_network_log(
                "NodeJoined",
                node=make_node_address(0),
                stake=0,
                gpuName=gpu_name,
                gpuVram=gpu_vram,
                major=2,
                minor=5,
                patch=0,
                models=["sdxl"],
            ).data
            for gpu_name, gpu_vram in GPUS
        ]
        joins = []
        for number in self._network.free_nodes:
            stake = f"0x{self._random.randrange(400, 40_000) * UNIT:064x}"
            data = stake + self._random.choice(data_by_gpu)[len(stake) :]
            joins.append(
                self._network.build_log("NodeJoined", make_node_address(number), data=data)
            )
        for offset in range(0, len(joins), JOINS_PER_BLOCK):
            self.commit_block(joins[offset : offset + JOINS_PER_BLOCK])

    def commit_groups(self, count: int, late_share: float) -> None:
        """Let groups of three nodes work, with one block for each stage of their tasks."""
        groups = [self._network.build_group_stages(late_share) for _ in range(count)]
        for stages in zip(*groups, strict=True):
            self.commit_block([log for stage in stages for log in stage])

    def commit_new_block(self) -> None:
        """Commit a block of the current time that gives about a hundred nodes a score."""
        self.next_time = max(self._head.time + 1, int(unix_seconds()))
        groups = [self._network.build_group_stages(0.0) for _ in range(GROUPS_PER_NEW_BLOCK)]
        self.commit_block([log for group in groups for stage in group for log in stage])

    def accept_round(self) -> None:
        """Cut a report as of the newest block; the contract accepts it in the next block."""
        cutter = ReportCutter(self._reader, CRYNUX, SETTINGS, DOMAIN, anchor_window=256)
        with self._store.transaction() as uow:
            contract_state = uow.rounds.load_contract_state()
            assert cutter.on_block(uow, contract_state, self._head, -1) is not None
            (stored,) = uow.reports.list_newest(1)
        self.commit_block(
            [
                encode_oracle_log(
                    "RoundAccepted",
                    round=stored.report.head_round + 1,
                    asOf=stored.report.as_of.number,
                    asOfHash=stored.report.as_of.hash,
                    root=stored.report.root,
                    config=CONFIG,
                    signers=1,
                )
            ]
        )

    def list_recovering_nodes(self) -> list[Address]:
        with self._store.read_transaction() as uow:
            return [
                node.address
                for node in uow.nodes.iterate_all()
                if compute_reliability(node, self._head.time, CRYNUX) < UNIT
            ]


def build_hash(kind: str, number: int) -> Hash:
    return Hash("0x" + sha256(f"{kind} {number}".encode()).hexdigest())


def divide_evenly(total: int, parts: int) -> list[int]:
    """Split a total into nonzero parts that differ by at most one."""
    counts = [total // parts + (part < total % parts) for part in range(parts)]
    return [count for count in counts if count]


class PageTimes(NamedTuple):
    """The CPU time of the server, in ms, for the first request and at a new block."""

    path: str
    first_ms: float
    new_block_ms: float


class PageClient:
    """Sends requests to the server, and reads the CPU time that the server used for them."""

    def __init__(self, server: ApiServer) -> None:
        self._address = urlsplit(server.url).netloc
        self._clock_id = (~server.process_id << 3) | CPUCLOCK_SCHED

    def read_cpu_ms(self) -> float:
        """Return the CPU time of the server since its start."""
        return 1000 * time.clock_gettime(self._clock_id)

    def measure_request(self, path: str) -> float:
        """Request a path, and return the CPU time that the server used for the response."""
        connection = HTTPConnection(self._address)
        start = self.read_cpu_ms()
        connection.request("GET", path, headers={"accept-encoding": "gzip"})
        response = connection.getresponse()
        response.read()
        used_ms = self.read_cpu_ms() - start
        connection.close()
        assert response.status == HTTPStatus.OK, f"{path}: status {response.status}"
        return used_ms


def measure_pages(client: PageClient, index: SyntheticIndex, paths: list[str]) -> list[PageTimes]:
    first_ms_by_path = {path: client.measure_request(path) for path in paths}

    def measure_at_new_block(path: str) -> float:
        index.commit_new_block()
        return client.measure_request(path)

    return [
        PageTimes(path, first_ms, min(measure_at_new_block(path) for _ in range(REQUESTS)))
        for path, first_ms in first_ms_by_path.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=TARGET_NODES)
    parser.add_argument("--recovering", type=int, help="default: one node in twenty")
    arguments = parser.parse_args()
    node_count: int = arguments.nodes
    recovering_count: int = arguments.recovering or node_count // RECOVERING_ONE_IN
    begin_benchmark("the client, POST requests, draws, states of past blocks, PostgreSQL")
    tune_garbage_collection()
    end_time = int(unix_seconds())
    first_time = end_time - TIMEOUT_SECONDS - HEALING_SECONDS - HISTORY_SECONDS
    with tempfile.TemporaryDirectory(prefix="qos-oracle-pages.") as folder:
        database_url = f"sqlite:///{folder}/oracle.sqlite"
        with Store.open(database_url, create=True) as store:
            index = SyntheticIndex(store, node_count, first_time)
            index.commit_history(node_count, recovering_count, end_time)
            recovering_nodes = index.list_recovering_nodes()
            print(
                f"{node_count:,} nodes, {len(recovering_nodes):,} of them recovering; committed "
                f"in {time.process_time():.0f} s CPU",
                flush=True,
            )
            path_parameters = {
                "node": recovering_nodes[0],
                "task": make_task_key(1),
                "group": make_group_key(1),
            }
            index.commit_new_block()
            with serve_database(UNUSED_ENDPOINT, database_url, Path(folder), ORACLE) as server:
                client = PageClient(server)
                print(f"start of the server: {client.read_cpu_ms():.0f} ms CPU", flush=True)
                times = measure_pages(
                    client, index, [path.format(**path_parameters) for path in PATHS]
                )
    return finish_benchmark(
        [
            Outcome(
                title=f"{path} at a new block",
                value=page_times.new_block_ms,
                unit="ms CPU",
                target=TARGET_MS,
                baseline=page_times.first_ms,
                baseline_name="its first request",
                target_size="" if node_count == TARGET_NODES else f"{TARGET_NODES:,} nodes",
            )
            for path, page_times in zip(PATHS, times, strict=True)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
