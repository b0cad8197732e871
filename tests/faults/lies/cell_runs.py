"""Plays a cell twice: real endpoints over HTTP, and the real command on its own database."""

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, transport_faults
from devnet.fakechain.faults.forging import create_forged_provider
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoints
from devnet.fakechain.tree import get_branch
from oracle.cli.main import run
from tests.faults.lies.cells import Cell, EndpointSet, Place, Timing
from tests.faults.lies.chains import CHAIN_ID, FINALITY, TrueChain, build_true_chain
from tests.faults.lies.lies import LIES
from tests.faults.lies.stored import read_database_content
from tests.support.cli.local_network import Settings, write_config

# Runs a command; returns its exit code, and its output on both streams.
Command = Callable[..., tuple[int, str]]
# The number of responses after which the liar begins or stops lying.
_FIRST_RESPONSES = 12


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One `run --once`: its exit code, its output, and the differences of the database."""

    code: int
    output: str
    differing: dict[str, int]


@dataclass(slots=True)
class CellOutcome:
    """The result of a cell: two runs, and the output of `status` after them."""

    cell: Cell
    runs: list[RunOutcome] = field(default_factory=list)
    status: str = ""


def play_cell(cell: Cell, folder: Path, command: Command | None = None) -> CellOutcome:
    """Play a cell. `folder` is empty, or contains a migrated `oracle.sqlite`.

    `command` runs a command; by default it runs in this process.
    """
    run_command = command or _run_in_this_process
    chain = build_chain(cell)
    outcome = CellOutcome(cell)
    with _serve_endpoints(cell, chain) as (urls, reveal_heads):
        config = str(write_config(_build_settings(chain, urls, folder), folder / "config.toml"))
        if cell.place is Place.HEAD:
            # Blocks at the head are read first, and compared once they are final.
            run_command("run", "--once", "--config", config)
            run_command("run", "--once", "--config", config)
        for reveal_head in reveal_heads:
            reveal_head()
        for _ in range(2):
            code, output = run_command("run", "--once", "--config", config)
            differing = chain.content.differing(read_database_content(folder / "oracle.sqlite"))
            outcome.runs.append(RunOutcome(code, output, differing))
        _, outcome.status = run_command("status", "--config", config)
    return outcome


def build_chain(cell: Cell) -> TrueChain:
    """Return the chain on which the cell is played."""
    return build_true_chain(cell.profile, cell.seed, ends_quietly=cell.place is Place.BEFORE_PROOF)


@contextmanager
def _serve_endpoints(
    cell: Cell, chain: TrueChain
) -> Iterator[tuple[list[str], list[Callable[[], None]]]]:
    """Serve the cell's endpoints; yield their URLs, and functions that show the complete chain."""
    liar = _build_liar(cell, chain)
    honest = Provider(chain.tree)
    silent = Provider(chain.tree)
    silent.faults.append(transport_faults.build_http_status_fault(503))
    providers = {
        EndpointSet.ALONE: [liar],
        EndpointSet.FIRST: [liar, honest],
        EndpointSet.SECOND: [honest, liar],
        EndpointSet.OUTNUMBERED: [liar, _build_liar(cell, chain), silent],
        EndpointSet.MAJORITY: [liar, _build_liar(cell, chain), honest],
    }[cell.endpoint_set]
    for provider in providers:
        provider.tag_targets = {"safe": 2, "finalized": FINALITY}
        provider.code_by_address = dict(chain.network.codes)
        provider.faults += cell.headers.faults()
    reveal_heads = [_limit_head(provider, chain.before_settling) for provider in providers]
    with serve_endpoints(*providers) as urls:
        yield urls, reveal_heads


def _limit_head(provider: Provider, height: int) -> Callable[[], None]:
    """Let an endpoint show its chain only up to a height; return the function that ends this."""
    true_head = provider.head
    provider.head = get_branch(true_head)[height]
    return lambda: setattr(provider, "head", true_head)


def _build_liar(cell: Cell, chain: TrueChain) -> Provider:
    cap = cell.cap()
    if cap is not None:
        provider = Provider(chain.tree)
        provider.faults.append(cap)
        return provider
    liar = create_forged_provider(chain.tree, LIES[cell.lie], cell.depth, cell.place.blocks)
    if cell.timing is Timing.ALWAYS:
        return liar
    occasional_liar = Provider(chain.tree)
    occasional_liar.faults.append(_build_timed_fault(cell.timing, liar))
    return occasional_liar


def _build_timed_fault(timing: Timing, liar: Provider) -> InjectedFault:
    about = frozenset(
        {
            "eth_getLogs",
            "eth_getBlockReceipts",
            "eth_getTransactionReceipt",
            "eth_getBlockByNumber",
            "eth_getBlockByHash",
            "eth_getTransactionByHash",
        }
    )
    if timing is Timing.AT_FIRST:
        return block_faults.build_forwarding_fault(liar, methods=about, times=_FIRST_RESPONSES)
    if timing is Timing.EVERY_SECOND:
        return block_faults.build_forwarding_fault(
            liar, methods=about, when=block_faults.match_every_second_request()
        )
    return block_faults.build_forwarding_fault(
        liar, methods=about, when=block_faults.match_after_requests(_FIRST_RESPONSES)
    )


def _build_settings(chain: TrueChain, urls: list[str], folder: Path) -> Settings:
    network = chain.network
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"id": CHAIN_ID, "endpoints": urls, "finality_depth": FINALITY},
        "network": {"profile": network.profile, "contracts": dict(network.contracts)},
        "log": {"format": "json"},
    }


def _run_in_this_process(*arguments: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code, and its output on both streams."""
    output = io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(output))
        stack.enter_context(redirect_stderr(output))
        code = run(arguments)
    return code, output.getvalue()


def run_in_separate_process(*arguments: str) -> tuple[int, str]:
    """Run a command in a separate process; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "oracle", *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr
