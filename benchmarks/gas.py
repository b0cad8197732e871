"""Measure the gas of a round, a kickout and a read on Anvil, for different numbers of nodes.

Run: .venv/bin/python benchmarks/gas.py
The gas is that of complete transactions, with the base cost and the input, unless a name says
"inside". The contract makes all of its checks: quorum, as-of hash, chained roots, and limits.
tests/contracts/roots/ holds the figures that the tests compare.
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from tests.contracts.roots.module_gas import measure  # noqa: E402
from tests.contracts.roots.roots_gas import SIGNERS, SIZES, measure_roots  # noqa: E402
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil  # noqa: E402
from tests.support.evm.chain import Chain  # noqa: E402

# Number of nodes in the hot set, and in the tree for reads by proof.
NODE_COUNT = 1_000
MAX_PUSH_GAS, MAX_LANE_GAS = 60_000, 560
# Exit code of a run that succeeded but missed its target.
MISSED_EXIT_CODE = 3


def build_table(gas_by_name: dict[str, int]) -> Table:
    table = Table(title="Gas", title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("gas", justify="right")
    for name, gas in gas_by_name.items():
        table.add_row(name, f"{gas:,}")
    return table


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else 100)
    with run_anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        gas_by_name = measure_roots(chain, SIGNERS)
        chain.close()
    with run_anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        gas_by_name |= measure(chain, (NODE_COUNT,), (NODE_COUNT,))
        chain.close()
    console.print(build_table(gas_by_name))
    push_gas = max(gas_by_name[f"push, {size} nodes, quorum 1"] for size in SIZES)
    lane_gas = gas_by_name[f"words, {NODE_COUNT} nodes, run of 64, each node"]
    is_met = push_gas <= MAX_PUSH_GAS and lane_gas <= MAX_LANE_GAS
    verdict = f"a round, one signer: {push_gas:,} gas; a lane of the hot set: {lane_gas:,} gas"
    targets = f"targets at most {MAX_PUSH_GAS:,} and {MAX_LANE_GAS}"
    console.print(f"{verdict}; {targets}: {'reached' if is_met else 'MISSED'}")
    return 0 if is_met else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
