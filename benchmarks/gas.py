"""Measure the gas of one score on chain: QoSOracle compared with a plain mapping, on Anvil.

Run: .venv/bin/python benchmarks/gas.py
The gas is that of complete transactions, with the base cost and the input. "first" writes empty
storage slots, "steady" changes used ones (the first report of the oracle is a registration, see
tests/contracts/gas.py). "random" updates n random nodes out of 1000, "dense" n nodes with
consecutive indexes. QoSOracle makes all of its checks: quorum, as-of hash, chained rounds, and
limits.
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from web3 import Web3

ROOT = Path(__file__).resolve().parents[1]
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from tests.contracts.gas import FIRST, NODES, SECOND, SIZES, populated, sample, send, steady  # noqa: E402
from tests.support.evm.anvil import FREE_BY_HAND, anvil  # noqa: E402
from tests.support.evm.chain import Chain  # noqa: E402

QUORUMS = (1, 3)
TARGET = 450
# The exit code of a run that succeeded but missed its target.
MISSED = 3


# --- the plain mapping ---


def naive(chain: Chain, size: int) -> tuple[int, int]:
    """Return the gas of a first and of a steady report of `size` nodes to the plain mapping."""
    contract = chain.deploy("bench/NaiveScores", chain.accounts[0])
    nodes = [Web3.to_checksum_address(Web3.keccak(text=f"node {i}")[-20:]) for i in range(size)]
    calls = [contract.functions.push(nodes, [lane] * size) for lane in (FIRST, SECOND)]
    first, second = (send(chain, call, chain.accounts[0]) for call in calls)
    return first, second


# --- the table ---


def measured(chain: Chain) -> list[tuple[str, list[int]]]:
    """Return the table's rows: a name, and the gas of a transaction for each of SIZES."""
    first, second = zip(*(naive(chain, size) for size in SIZES), strict=True)
    rows = [
        ("plain mapping, event per node, first", [*first]),
        ("plain mapping, event per node, steady", [*second]),
    ]
    for quorum in QUORUMS:
        oracle = populated(chain, quorum)
        signers = "1 signer" if quorum == 1 else f"{quorum} signers"
        for dense in (True, False):
            gas = [steady(oracle, sample(size, dense=dense), quorum) for size in SIZES]
            rows.append((f"QoSOracle, {signers}, {'dense' if dense else 'random'}, steady", gas))
    return rows


def table(rows: list[tuple[str, list[int]]]) -> Table:
    shown = Table(title="Gas per node update (whole transaction)", title_justify="left")
    shown.add_column("", no_wrap=True)
    for size in SIZES:
        shown.add_column(f"n = {size}", justify="right")
    for name, gas in rows:
        shown.add_row(name, *(f"{round(cost / n):,}" for n, cost in zip(SIZES, gas, strict=True)))
    return shown


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else 100)
    with anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        rows = measured(chain)
        chain.close()
    console.print("The plain mapping, contracts/bench/NaiveScores.sol:\n", style="bold")
    source = (ROOT / "contracts/bench/NaiveScores.sol").read_text("utf-8")
    console.print(source, markup=False, highlight=False, soft_wrap=True)
    console.print(table(rows))
    dense = rows[2][1][-1] / NODES
    met = dense <= TARGET
    verdict = f"1000 dense, one signer, steady: {dense:.1f} gas per node"
    console.print(f"{verdict}; target at most {TARGET}: {'reached' if met else 'MISSED'}")
    return 0 if met else MISSED


if __name__ == "__main__":
    sys.exit(main())
