"""Compare backfills with every default proof and without proofs.

Run: .venv/bin/python benchmarks/verify.py [--events 40000] [--rounds 3] [--profile]
The chain has valid blocks (correct roots, blooms and hashes) with about twenty logs each. Each log
has its own transaction, so nearly every block has something to prove. A separate process serves
the chain. All variants fetch, check, decode, fold and commit everything. The last variant also
reads every block with its transactions, because its profile watches calls, one in each block.
"""

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.json import encode as encoded
from rich.console import Console
from rich.table import Table
from typing_extensions import override

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.backfill import (  # noqa: E402
    FINALITY_DEPTH,
    MISSED_EXIT_CODE,
    Run,
    open_chain_source,
    record_time,
)
from benchmarks.ordinary_traffic import BLOCK_SECONDS, URL_PREFIX, iterate_block_logs  # noqa: E402
from devnet.fakechain.block_json import FakeLog, Tx  # noqa: E402
from devnet.fakechain.provider import Provider  # noqa: E402
from devnet.fakechain.server import serve_endpoint  # noqa: E402
from devnet.fakechain.tree import SENDER, BlockTree, get_branch  # noqa: E402
from oracle.chain.verification.verification_policy import VerificationPolicy  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.coverage import VerificationLevel  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.commit import CommittedWindow  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

# Input of the calls that the profile of the last variant reads: a selector and one argument.
WATCHED_INPUT = "0x12345678" + "00" * 32
# Code of the contract that emits the events. The daemon checks that it contains their topics.
_CODE = json.loads((ROOT / "abi" / "TaskNetwork.json").read_text("utf-8"))["bytecode"]
# Minimum speed with proofs, as a share of the speed without proofs.
MIN_SPEED_SHARE = 0.5


class PreparedProvider(Provider):
    """Serves responses encoded in advance, so that only the indexer's work is measured."""

    def __init__(self, tree: BlockTree) -> None:
        super().__init__(tree)
        blocks = get_branch(tree.last_mined)
        self._blocks_with_transactions = [
            encoded(block.json_with_transactions) for block in blocks
        ]
        self._headers = [encoded(block.json_with_hashes) for block in blocks]
        self._receipts = {block.hash: encoded(block.receipts) for block in blocks}
        self._logs = [b",".join(map(encoded, block.logs)) for block in blocks]

    @override
    def handle_call(self, method: str, params: Sequence[Any]) -> object:
        first_param = params[0] if params else None
        if method == "eth_getCode":
            return _CODE
        if method == "eth_getBlockByNumber" and str(first_param).startswith("0x"):
            return Raw(
                (self._blocks_with_transactions if params[1] else self._headers)[
                    int(params[0], 16)
                ]
            )
        if method == "eth_getBlockReceipts":
            return Raw(self._receipts[params[0]])
        if (
            method == "eth_getLogs"
            and isinstance(first_param, dict)
            and "fromBlock" in first_param
        ):
            first = int(first_param["fromBlock"], 16)
            last_block = int(first_param["toBlock"], 16)
            return Raw(b"[%b]" % b",".join(filter(None, self._logs[first : last_block + 1])))
        return super().handle_call(method, params)


@contextmanager
def serve_valid_chain(events: int, empty_blocks: int = FINALITY_DEPTH) -> Iterator[str]:
    """Serve the chain from a separate process, and yield its URL.

    The last `empty_blocks` blocks contain no log.
    """
    command = [sys.executable, __file__, "--serve", "--events", str(events)]
    command += ["--empty-blocks", str(empty_blocks)]
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


def run_server(events: int, empty_blocks: int) -> None:
    """Mine the ordinary traffic into valid blocks, and serve them until the process is stopped."""
    tree = BlockTree()
    for block in iterate_block_logs(events):
        transactions = [Tx(SENDER, NETWORK, logs=(FakeLog(*log),)) for log in block]
        transactions_with_call = [
            replace(transaction, input=WATCHED_INPUT) for transaction in transactions[:1]
        ]
        tree.mine([*transactions_with_call, *transactions[1:]], seconds=BLOCK_SECONDS)
    tree.mine_empty_blocks(empty_blocks)
    with serve_endpoint(PreparedProvider(tree)) as endpoint:
        print(f"{URL_PREFIX}{endpoint.url}", flush=True)
        threading.Event().wait()


@dataclass(frozen=True)
class Variant:
    name: str
    policy: VerificationPolicy
    has_calls: bool = False


# With this policy, not even the header of a block with logs is verified.
NO_PROOF = VerificationPolicy(
    head=VerificationLevel.CHECKED, history=VerificationLevel.CHECKED, receipts=False
)
VARIANTS = (
    Variant("without proof", NO_PROOF),
    Variant("with every proof", VerificationPolicy()),
    Variant("with every proof and calls", VerificationPolicy(), has_calls=True),
)


def backfill(url: str, variant: Variant, database: Path) -> Run:
    """Index the complete chain into a new database."""
    run = Run(variant.name)
    source, reader = open_chain_source(url)
    if variant.has_calls:
        reader.selectors = {Address(NETWORK): frozenset({WATCHED_INPUT[:10]})}
    source.configure_verification(variant.policy)
    with Store.open(f"sqlite:///{database}", create=True) as store:
        with store.transaction() as uow:
            genesis = source.fetch_genesis_hash()
            uow.identity.ensure_stored_identity(
                Identity(31337, genesis, {"TaskNetwork": NETWORK}, None, 0)
            )
        folder = EventFolder(CRYNUX, reader)
        ingest = IngestState()
        with record_time(run):
            while (step := ingest_next_window(source, store, folder, ingest)) is not None:
                assert isinstance(step, CommittedWindow)
                run.events += step.log_count
        with store.read_transaction() as uow:
            assert uow.logs.count() == run.events
            assert (sum(1 for _ in uow.calls.iterate_between(0, 2**62)) > 0) == variant.has_calls
    assert variant.policy is NO_PROOF or source.get_max_allowed_level() is VerificationLevel.PROVEN
    source.close()
    return run


def build_table(runs: Sequence[Run]) -> Table:
    table = Table(title="Backfill of valid blocks into SQLite; best of all rounds")
    for title in ("way", "events", "seconds", "events/s", "CPU µs/event"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for run in runs:
        cpu = 1e6 * run.cpu_seconds / run.events
        cells = (
            f"{run.events:,}",
            f"{run.seconds:.2f}",
            f"{run.events_per_second:,.0f}",
            f"{cpu:.1f}",
        )
        table.add_row(run.name, *cells)
    return table


def run_rounds(url: str, folder: Path, round_count: int) -> list[Run]:
    """Run all variants in turn, several times, and return the best run of each.

    The best run counts, because other programs may slow down a run.
    """
    best_by_variant: dict[str, Run] = {}
    for number in range(round_count):
        for variant in VARIANTS:
            run = backfill(url, variant, folder / f"{number} {variant.name}.db")
            if run.name not in best_by_variant or run.seconds < best_by_variant[run.name].seconds:
                best_by_variant[run.name] = run
    return list(best_by_variant.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="print the time by function")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--empty-blocks", type=int, default=FINALITY_DEPTH, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        run_server(arguments.events, arguments.empty_blocks)
    console = Console()
    tune_garbage_collection()
    with (
        tempfile.TemporaryDirectory() as folder,
        serve_valid_chain(arguments.events) as url,
        cProfile.Profile() as profile,
    ):
        if not arguments.profile:
            profile.disable()
        runs = run_rounds(url, Path(folder), arguments.rounds)
    console.print(build_table(runs))
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    run_without_proofs, run_with_proofs, _ = runs
    speed_share = run_with_proofs.events_per_second / run_without_proofs.events_per_second
    verdict = "reached" if speed_share >= MIN_SPEED_SHARE else "MISSED"
    console.print(
        f"{speed_share:.0%} of the speed without proofs; target {MIN_SPEED_SHARE:.0%}: {verdict}"
    )
    return 0 if speed_share >= MIN_SPEED_SHARE else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
