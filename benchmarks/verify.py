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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.backfill import FINALITY_DEPTH, MISSED, Run, opened, timed  # noqa: E402
from benchmarks.ordinary_traffic import BLOCK_SECONDS, SERVING, said_in_blocks  # noqa: E402
from devnet.fakechain.block_json import FakeLog, Tx  # noqa: E402
from devnet.fakechain.provider import Provider  # noqa: E402
from devnet.fakechain.server import serve_endpoint  # noqa: E402
from devnet.fakechain.tree import SENDER, BlockTree, get_branch  # noqa: E402
from oracle.chain.verification.verification_policy import VerificationPolicy  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.domain.coverage import VerificationLevel  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.commit import CommittedWindow  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

# The input of the call that the last variant watches: a selector and one argument.
WATCHED = "0x12345678" + "00" * 32
# The code of the contract that emits the events; a daemon looks for their topics in it.
_CODE = json.loads((ROOT / "abi" / "TaskNetwork.json").read_text("utf-8"))["bytecode"]
# The minimum speed with proofs, as a share of the speed without proofs.
TARGET = 0.5


class Prepared(Provider):
    """Serves responses encoded in advance, so that only the indexer's work is measured."""

    def __init__(self, tree: BlockTree) -> None:
        super().__init__(tree)
        blocks = get_branch(tree.last_mined)
        self._whole = [encoded(block.json_with_transactions) for block in blocks]
        self._headers = [encoded(block.json_with_hashes) for block in blocks]
        self._receipts = {block.hash: encoded(block.receipts) for block in blocks}
        self._logs = [b",".join(map(encoded, block.logs)) for block in blocks]

    @override
    def handle_call(self, method: str, params: Sequence[Any]) -> object:
        named = params[0] if params else None
        if method == "eth_getCode":
            return _CODE
        if method == "eth_getBlockByNumber" and str(named).startswith("0x"):
            return Raw((self._whole if params[1] else self._headers)[int(params[0], 16)])
        if method == "eth_getBlockReceipts":
            return Raw(self._receipts[params[0]])
        if method == "eth_getLogs" and isinstance(named, dict) and "fromBlock" in named:
            first, last = int(named["fromBlock"], 16), int(named["toBlock"], 16)
            return Raw(b"[%b]" % b",".join(filter(None, self._logs[first : last + 1])))
        return super().handle_call(method, params)


@contextmanager
def served(events: int) -> Iterator[str]:
    """Serve the chain in a separate process within this context; yield its URL."""
    command = [sys.executable, __file__, "--serve", "--events", str(events)]
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


def serve(events: int) -> None:
    """Mine the ordinary traffic into valid blocks, and serve them until the process is stopped."""
    tree = BlockTree()
    for block in said_in_blocks(events):
        txs = [Tx(SENDER, NETWORK, logs=(FakeLog(*log),)) for log in block]
        called = [replace(tx, input=WATCHED) for tx in txs[:1]]
        tree.mine([*called, *txs[1:]], seconds=BLOCK_SECONDS)
    tree.mine_empty_blocks(FINALITY_DEPTH)
    with serve_endpoint(Prepared(tree)) as endpoint:
        print(f"{SERVING}{endpoint.url}", flush=True)
        threading.Event().wait()


@dataclass(frozen=True)
class Way:
    name: str
    policy: VerificationPolicy
    watches: bool = False


# Not even the header of a block with logs is read.
NO_PROOF = VerificationPolicy(
    head=VerificationLevel.CHECKED, history=VerificationLevel.CHECKED, receipts=False
)
WAYS = (
    Way("without proof", NO_PROOF),
    Way("with every proof", VerificationPolicy()),
    Way("with every proof and calls", VerificationPolicy(), watches=True),
)


def backfill(url: str, mode: Way, database: Path) -> Run:
    """Index the complete chain into a new database."""
    run = Run(mode.name)
    source, reader = opened(url)
    if mode.watches:
        reader.selectors = {Address(NETWORK): frozenset({WATCHED[:10]})}
    source.set_verification(mode.policy)
    with Store.open(f"sqlite:///{database}", create=True) as store:
        with store.transaction() as uow:
            genesis = source.fetch_genesis_hash()
            uow.identity.store_or_check(
                Identity(31337, genesis, {"TaskNetwork": NETWORK}, None, 0)
            )
        folder, ingest = EventFolder(CRYNUX, reader), IngestState()
        with timed(run):
            while (step := ingest_next_window(source, store, folder, ingest)) is not None:
                assert isinstance(step, CommittedWindow)
                run.events += step.log_count
        with store.read_transaction() as uow:
            assert uow.logs.count() == run.events
            assert (sum(1 for _ in uow.calls.iterate_between(0, 2**62)) > 0) == mode.watches
    assert mode.policy is NO_PROOF or source.get_max_allowed_level() is VerificationLevel.PROVEN
    source.close()
    return run


def shown(runs: Sequence[Run]) -> Table:
    table = Table(title="Backfill of valid blocks into SQLite; best of all rounds")
    for title in ("way", "events", "seconds", "events/s", "CPU µs/event"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for run in runs:
        cpu = 1e6 * run.cpu_seconds / run.events
        cells = (f"{run.events:,}", f"{run.seconds:.2f}", f"{run.rate:,.0f}", f"{cpu:.1f}")
        table.add_row(run.name, *cells)
    return table


def rounds(url: str, folder: Path, count: int) -> list[Run]:
    """Run all variants in turn, several times, and return the best run of each.

    The best run counts, because other programs may slow down a run.
    """
    best: dict[str, Run] = {}
    for number in range(count):
        for mode in WAYS:
            run = backfill(url, mode, folder / f"{number} {mode.name}.db")
            if run.name not in best or run.seconds < best[run.name].seconds:
                best[run.name] = run
    return list(best.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="print the time by function")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.events)
    out = Console()
    freeze_gc()
    with (
        tempfile.TemporaryDirectory() as folder,
        served(arguments.events) as url,
        cProfile.Profile() as profile,
    ):
        if not arguments.profile:
            profile.disable()
        runs = rounds(url, Path(folder), arguments.rounds)
    out.print(shown(runs))
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    plain, proving, _ = runs
    share = proving.rate / plain.rate
    verdict = "reached" if share >= TARGET else "MISSED"
    out.print(f"{share:.0%} of the speed without proofs; target {TARGET:.0%}: {verdict}")
    return 0 if share >= TARGET else MISSED


if __name__ == "__main__":
    sys.exit(main())
