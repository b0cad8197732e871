"""Gas of every transaction that QoSRoots takes, measured on Anvil.

Run: .venv/bin/python tests/contracts/roots/roots_gas.py     measures, writes gas.json

Whole transactions are counted, base fee and input included. A signature and a hash have a
different number of zero bytes each time, which cost less: a figure moves by some dozens of gas.
The root of a round with very many nodes is made from one leaf and as many hashes as its proof has,
because gas depends on nothing else of the tree.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# Run as a script it finds the packages beside it; so the imports below cannot stand above (E402).
sys.path.insert(0, str(ROOT))

from eth_account import Account  # noqa: E402
from eth_account.signers.local import LocalAccount  # noqa: E402
from web3 import Web3  # noqa: E402

from oracle.chain.proofs.keccak import keccak  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.domain.roots.leaves import NodeLeaf, RoundSummary, hash_leaf  # noqa: E402
from oracle.domain.roots.merkle_tree import compute_root  # noqa: E402
from tests.contracts.roots.due_leaves import DUE  # noqa: E402
from tests.contracts.roots.root_rounds import leaf_tuple, make_leaves, summary_tuple  # noqa: E402
from tests.contracts.roots.roots_driver import KEPT, LIMITS, RootsOracle, deploy_roots  # noqa: E402
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil  # noqa: E402
from tests.support.evm.chain import Chain  # noqa: E402

KEPT_GAS = Path(__file__).with_name("gas.json")
SIZES = (20, 1_000, 1_000_000)
QUORUMS = (1, 3, 5)
SIGNERS: tuple[LocalAccount, ...] = tuple(
    Account.from_key(Web3.keccak(text=f"signer {number}")) for number in range(9)
)


@dataclass(frozen=True)
class DeepRound:
    """A round of very many nodes, of which one leaf is known."""

    known_leaf: NodeLeaf
    node_count: int
    chain_id: int
    oracle: str
    round: int
    as_of: int

    @property
    def summary(self) -> RoundSummary:
        oracle = Address(self.oracle.lower())
        count = self.node_count
        numbers = (self.round, self.as_of, count, count, 7_001 * count)
        return RoundSummary(self.chain_id, oracle, *numbers)

    @property
    def proof(self) -> list[bytes]:
        depth = (self.node_count - 1).bit_length()
        # The hashes beside the path, the root of the words, the summary.
        siblings = [keccak(f"sibling {level}".encode()) for level in range(depth + 1)]
        return [*siblings, hash_leaf(self.summary.encode(), keccak)]

    @property
    def root(self) -> bytes:
        return compute_root(hash_leaf(self.known_leaf.encode(), keccak), self.proof, keccak)

    @property
    def proven(self) -> tuple[Any, list[bytes]]:
        return leaf_tuple(self.known_leaf), self.proof


@dataclass
class MeasuredOracle:
    """An oracle and the last round that it accepted."""

    oracle: RootsOracle
    signers: Sequence[LocalAccount]
    node_count: int

    def push(self, leaf: NodeLeaf, back: int = 1) -> tuple[int, DeepRound]:
        """Push one more round, as of `back` blocks before the last; return its gas."""
        oracle = self.oracle
        oracle.chain.mine(2)
        as_of = oracle.chain.block - back
        accepted = DeepRound(leaf, self.node_count, *oracle.domain, oracle.round + 1, as_of)
        report = oracle.report(accepted.root, as_of=as_of)
        oracle.chain.later(LIMITS["minInterval"])
        receipt = oracle.push(report, report.signed_by(*self.signers))
        return receipt.gas, accepted


def measure_roots(chain: Chain, signers: Sequence[LocalAccount]) -> dict[str, int]:
    """Return the gas by the transaction's name; `signers` are at least nine."""
    chain.mine(3)
    gas_by_name: dict[str, int] = {}
    for quorum in QUORUMS:
        gas_by_name |= _measure_pushes(chain, signers, quorum)
    for size in SIZES:
        gas_by_name |= _measure_kickouts(chain, signers, size)
    return gas_by_name | _measure_roles(chain, signers)


def _deploy(
    chain: Chain, signers: Sequence[LocalAccount], quorum: int, size: int, kept: int = 3
) -> MeasuredOracle:
    """Deploy an oracle whose ring of roots is full."""
    addresses = [signer.address for signer in signers[: 2 * quorum - 1]]
    oracle = deploy_roots(chain, signers=addresses, quorum=quorum, kept=kept)
    measured = MeasuredOracle(oracle, signers[:quorum], size)
    for _ in range(kept):
        measured.push(make_leaves(2)[0])
    return measured


def _measure_pushes(chain: Chain, signers: Sequence[LocalAccount], quorum: int) -> dict[str, int]:
    leaf = make_leaves(2)[0]
    gas_by_name = {}
    for size in SIZES:
        measured = _deploy(chain, signers, quorum, size)
        gas_by_name[f"push, {size} nodes, quorum {quorum}"] = measured.push(leaf)[0]
    if quorum == 3:
        with chain.undone():
            chain.mine(300)
            name = f"push, quorum {quorum}, as of 292 blocks back"
            gas_by_name[name] = measured.push(leaf, back=290)[0]
        addresses = [signer.address for signer in signers[: 2 * quorum - 1]]
        empty = deploy_roots(chain, signers=addresses, quorum=quorum)
        first_lap = MeasuredOracle(empty, signers[:quorum], SIZES[0])
        first_lap.push(leaf)
        name = f"push, quorum {quorum}, in the first {KEPT} rounds"
        gas_by_name[name] = first_lap.push(leaf)[0]
    return gas_by_name


def _measure_kickouts(chain: Chain, signers: Sequence[LocalAccount], size: int) -> dict[str, int]:
    good = make_leaves(2)[0]
    bad = make_leaves(2, {0: DUE})[0]
    measured = _deploy(chain, signers, 3, size)
    oracle = measured.oracle
    oracle.by_network("join", chain.web3.to_checksum_address(good.node))
    _, accepted = measured.push(bad)
    gas_by_name = {f"accuse, {size} nodes": oracle.do("accuse", *accepted.proven).gas}
    with chain.undone():
        _, healthy = measured.push(good)
        gas_by_name[f"clear, {size} nodes"] = oracle.do("clear", *healthy.proven).gas
    chain.later(LIMITS["vetoDelay"])
    chain.mine()
    for _ in range(LIMITS["kickRounds"]):
        _, accepted = measured.push(bad)
    execution = oracle.contract.functions.executeKick(
        *accepted.proven, summary_tuple(accepted.summary)
    )
    gas_by_name[f"executeKick, {size} nodes"] = oracle.send(execution).gas
    return gas_by_name


def _measure_roles(chain: Chain, signers: Sequence[LocalAccount]) -> dict[str, int]:
    bad = make_leaves(2, {0: DUE})[0]
    node = chain.web3.to_checksum_address(bad.node)
    measured = _deploy(chain, signers, 3, SIZES[0])
    oracle = measured.oracle
    oracle.do("accuse", *measured.push(bad)[1].proven)
    three = [signer.address for signer in signers[:3]]
    gas_by_name = {
        "veto": oracle.do("veto", node, bytes(32), sender=oracle.vetoer).gas,
        "setSigners, 3": oracle.do("setSigners", three, 2, sender=oracle.admin).gas,
        "pauseFor": oracle.do("pauseFor", 600, sender=oracle.pauser).gas,
        "strike, 1 round": oracle.do("strike", oracle.round, sender=oracle.pauser).gas,
    }
    long = _deploy(chain, signers, 3, SIZES[0], kept=KEPT)
    long.oracle.do("pauseFor", 600, sender=oracle.pauser)
    name = f"strike, {KEPT} rounds"
    gas_by_name[name] = long.oracle.do("strike", 1, sender=oracle.pauser).gas
    return gas_by_name


def main() -> int:
    with run_anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        gas_by_name = measure_roots(chain, SIGNERS)
        chain.close()
    KEPT_GAS.write_text(json.dumps(gas_by_name, indent=1) + "\n", "utf-8")
    for name, gas in gas_by_name.items():
        sys.stdout.write(f"{gas:>10,}  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
