"""Gas of reads by proof, of the hot set, and of the example consumers, measured on Anvil.

Run: .venv/bin/python tests/contracts/roots/module_gas.py     measures, writes module_gas.json

A run takes some minutes and a gigabyte of memory, because its largest rounds have a million
nodes. Whole transactions are counted, base fee and input included, unless a name says otherwise.
"inside" is what a call costs within a transaction, and "input" what its arguments add to one.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

ROOT = Path(__file__).resolve().parents[3]
# Run as a script it finds the packages beside it; so the imports below cannot stand above (E402).
sys.path.insert(0, str(ROOT))

from web3 import Web3  # noqa: E402
from web3.contract import Contract  # noqa: E402

from oracle.chain.proofs.keccak import keccak  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.domain.roots.leaves import NodeLeaf  # noqa: E402
from oracle.domain.roots.round_tree import RoundTree  # noqa: E402
from tests.contracts.oracle_signing import STRANGER as STRANGER_ACCOUNT  # noqa: E402
from tests.contracts.roots.objections_driver import (  # noqa: E402
    WORDS,
    SignedObjection,
    deploy_objections,
)
from tests.contracts.roots.root_rounds import (  # noqa: E402
    OPEN_LANE,
    POOL,
    RootRound,
    Tuple,
    make_leaves,
    node_address,
)
from tests.contracts.roots.roots_driver import LAG, ZERO, deploy_roots  # noqa: E402
from tests.contracts.roots.words_driver import HotSet, deploy_words  # noqa: E402
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil  # noqa: E402
from tests.support.evm.chain import Chain, encode_calldata  # noqa: E402
from tests.support.round_leaves import build_round_tree, compute_next_addresses, find_predecessor  # noqa: E402

KEPT = Path(__file__).with_name("module_gas.json")
# All are measured with these numbers of nodes; reads by proof also with those between.
SIZES = (1_000, 1_000_000)
READ_SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
RUNS = (1, 4, 16, 64)
FEE = 10**18
# In another band of ReputationBridge; back to OPEN_LANE is no fall.
BETTER_LANE = 9_002
STRANGER = Address("0x" + "11" * 20)


class UniformLeaves(Sequence[NodeLeaf]):
    """The leaves of healthy nodes with one lane, created on access."""

    def __init__(self, count: int, lane: int) -> None:
        self._lane = lane
        self._nodes = [node_address(seat) for seat in range(count)]
        self._next = compute_next_addresses(self._nodes)
        (self._pattern,) = make_leaves(1)

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, seat: int) -> NodeLeaf: ...
    @overload
    def __getitem__(self, seat: slice) -> Sequence[NodeLeaf]: ...
    def __getitem__(self, seat: int | slice) -> NodeLeaf | Sequence[NodeLeaf]:
        if isinstance(seat, slice):
            return [self[place] for place in range(*seat.indices(len(self)))]
        node = self._nodes[seat]
        next_node = self._next[node]
        return replace(self._pattern, node=node, next_node=next_node, lane=self._lane, seat=seat)

    @cached_property
    def tree(self) -> RoundTree:
        return build_round_tree(self)

    @cached_property
    def ascending(self) -> list[Address]:
        return sorted(self._nodes)

    def find_seat(self, node: Address) -> int:
        return self._nodes.index(node)


@dataclass(frozen=True)
class LargeRound(RootRound):
    """A round that shares its tree with other rounds of the same leaves."""

    @property
    def shared(self) -> UniformLeaves:
        assert isinstance(self.leaves, UniformLeaves)
        return self.leaves

    @property
    def tree(self) -> RoundTree:
        return self.shared.tree

    def absence(self, address: Address) -> tuple[Tuple, list[bytes]]:
        predecessor = find_predecessor(self.shared.ascending, address)
        return self.proven(self.shared.find_seat(predecessor))


class Meter:
    """An oracle of roots, its consumers, and the gas of each transaction by name."""

    def __init__(self, chain: Chain) -> None:
        chain.mine(3)
        self.chain = chain
        self.roots = deploy_roots(chain)
        self.probe = chain.deploy("testing/ProofProbe")
        self.gas_by_name: dict[str, int] = {}

    def push(self, leaves: UniformLeaves) -> LargeRound:
        self.chain.mine(2)
        as_of = self.chain.block - 1
        made = LargeRound(leaves, *self.roots.domain, self.roots.round + 1, as_of)
        report = self.roots.report(made.root, as_of=as_of)
        self.chain.later(20)
        self.roots.push(report)
        return made

    def push_lagged(self, leaves: UniformLeaves) -> LargeRound:
        made = self.push(leaves)
        for _ in range(LAG):
            self.push(leaves)
        return made

    def send(self, contract: Contract, name: str, *args: Any, value: int = 0) -> int:
        call = getattr(contract.functions, name)(*args)
        transaction = self.chain.request(call, value=value) | {"gas": hex(30_000_000)}
        sent, _ = self.chain.rpcs(("eth_sendTransaction", transaction), ("evm_mine",))
        return self.chain.receipt(sent).gas

    def inside(self, name: str, *args: Any) -> int:
        call = getattr(self.probe.functions, name)(*args)
        returned = call.call({"gas": 1_000_000}, block_identifier="latest")
        return int(returned[0] if isinstance(returned, list | tuple) else returned)

    # --- measurements ---

    def measure_reads(self, leaves: UniformLeaves) -> None:
        count = len(leaves)
        made = self.push(leaves)
        proven = (made.round, *made.proven(count // 3))
        inside = self.inside("gasOfLeaf", self.roots.contract.address, *proven)
        call = self.probe.functions.gasOfLeaf(self.roots.contract.address, *proven)
        given = bytes.fromhex(encode_calldata(call)[2:])[4 + 32 :]  # without selector and oracle
        added = sum(16 if byte else 4 for byte in given)
        name = f"read by proof, {count} nodes"
        self.gas_by_name |= {f"{name}, inside": inside, f"{name}, with its input": inside + added}
        absent = (Web3.to_checksum_address(STRANGER), *made.absence(STRANGER))
        self.gas_by_name[f"absence by proof, {count} nodes, inside"] = self.inside(
            "gasOfAbsence", self.roots.contract.address, made.round, *absent
        )

    def measure_words(self, leaves: UniformLeaves, others: UniformLeaves) -> HotSet:
        """Measure runs of words whose lanes all change."""
        count = len(leaves)
        hot_set = deploy_words(self.roots)
        first = self.push_lagged(leaves)

        def bring(source: RootRound, size: int) -> int:
            words = source.words(0, size)
            proof = source.words_proof(0, size)
            return self.send(hot_set.contract, "bring", source.round, 0, words, proof)

        name = f"words, {count} nodes"
        self.gas_by_name[f"{name}, run of 64, first"] = bring(first, 64)
        for size in RUNS:
            gas = bring(self.push(others), size)
            self.gas_by_name[f"{name}, run of {size}"] = gas
            nodes = min(16 * size, count)
            self.gas_by_name[f"{name}, run of {size}, each node"] = round(gas / nodes)
            bring(self.push(leaves), size)
        unchanged = bring(self.push(leaves), 64)
        self.gas_by_name[f"{name}, run of 64, same lanes"] = unchanged
        lagged = self.push_lagged(leaves)
        proven = [lagged.proven(seat) for seat in range(17)]
        for seats in (range(1), range(1, 17)):
            rows = [proven[seat] for seat in seats]
            arguments = [leaf for leaf, _ in rows], [proof for _, proof in rows]
            gas = self.send(hot_set.contract, "bind", *arguments)
            self.gas_by_name[f"bind a seat, {count} nodes, {len(seats)} at once, each"] = round(
                gas / len(seats)
            )
        node = Web3.to_checksum_address(leaves[3].node)
        address = hot_set.contract.address
        self.gas_by_name["weightOf in the hot set, inside"] = self.inside(
            "gasOfWeight", address, node
        )
        return hot_set

    def measure_consumers(
        self, leaves: UniformLeaves, others: UniformLeaves, hot_set: HotSet
    ) -> None:
        count = len(leaves)
        oracle = self.roots.contract.address
        self._measure_draws(leaves)
        escrow = self.chain.deploy("roots/consumers/PayByScore", oracle)
        made, paid_seat = self.push(leaves), count // 2  # an account without money
        node = Web3.to_checksum_address(leaves[paid_seat].node)
        self.gas_by_name["escrow, create"] = self.send(escrow, "create", node, value=FEE)
        for _ in range(LAG):
            self.push(leaves)
        settled = self.send(escrow, "settle", 1, *made.proven(paid_seat))
        self.gas_by_name[f"escrow, settle, {count} nodes"] = settled
        node = Web3.to_checksum_address(leaves[3].node)  # bound in the hot set
        dispatcher = self.chain.deploy(
            "roots/consumers/ScoreDispatcher", oracle, hot_set.contract.address, 5_000
        )
        self.send(dispatcher, "start", node)  # the first task costs more
        self.gas_by_name["dispatcher, start by the hot set"] = self.send(dispatcher, "start", node)
        started = self.send(dispatcher, "startByProof", made.round, *made.proven(3))
        self.gas_by_name[f"dispatcher, start by proof, {count} nodes"] = started
        registry = self.chain.deploy("roots/consumers/ReputationRegistryDouble")
        bridge = self.chain.deploy(
            "roots/consumers/ReputationBridge", oracle, registry.address, registry.address
        )
        self.chain.send(registry.functions.register(1, node))
        for name in ("first", "next"):
            self.gas_by_name[f"reputation, {name} feedback, {count} nodes"] = self.send(
                bridge, "giveFeedback", 1, *made.proven(3)
            )
            made = self.push_lagged(others)  # in another band
        self._measure_attestations(leaves, others)

    def _measure_attestations(self, leaves: UniformLeaves, others: UniformLeaves) -> None:
        service = self.chain.deploy("roots/consumers/AttestationServiceDouble")
        oracle = self.roots.contract.address
        attester = self.chain.deploy("roots/consumers/AttestationBridge", oracle, service.address)
        schema = attester.functions.SCHEMA().call(block_identifier="latest")
        self.chain.send(service.functions.register(schema, ZERO, False))
        for name, source in {"first": leaves, "next": others}.items():
            proven = self.push_lagged(source).proven(3)
            gas = self.send(attester, "attest", *proven)
            self.gas_by_name[f"attestation, {name}, {len(leaves)} nodes"] = gas

    def _measure_draws(self, leaves: UniformLeaves) -> None:
        count = len(leaves)
        made = self.push_lagged(leaves)
        draw = self.chain.deploy("roots/consumers/SeatDraw", self.roots.contract.address)
        number = 0
        wanted = {1, 2, 3}
        while wanted:
            number += 1
            self.gas_by_name["draw, request"] = self.send(draw, "request")
            seed_block = self.chain.block + 1
            self.chain.mine(2)
            header = self.chain.rpc("eth_getBlockByNumber", hex(seed_block), False)
            seats = list(draw_seats(bytes.fromhex(header["hash"][2:]), number, made))
            if len(seats) in wanted:
                wanted.remove(len(seats))
                proofs = [made.proof(seat) for seat in seats]
                rows = [made.leaf(seat) for seat in seats], proofs
                gas = self.send(draw, "complete", number, made.summary_abi, made.trees, *rows)
                self.gas_by_name[f"draw, {len(seats)} tries, {count} nodes"] = gas

    def measure_challenges(self) -> None:
        challenge = self.chain.deploy("roots/QoSChallenge", self.roots.contract.address, 10)
        changes = {
            "wrongLane": {"lane": OPEN_LANE + 1},
            "wrongPool": {"score_sum": sum(POOL) + 1},
        }
        for name, change in changes.items():
            self.roots.push_leaves(make_leaves(1_000, {3: change}))
            made = self.roots.last_round
            extra = (POOL,) if name == "wrongPool" else ()
            self.gas_by_name[f"challenge, {name}, 1000 nodes"] = self.send(
                challenge, name, made.round, *made.proven(3), *extra
            )

    def measure_objections(self) -> None:
        """Measure objections of 94 bytes: sent by the node, sent for it, and of a contract."""
        driver = deploy_objections(self.chain, self.roots.contract.address)
        words = WORDS + " Mine did so too, between 14:02 and 14:20."
        wallet = self.chain.deploy("testing/SmartWallet", STRANGER_ACCOUNT.address)
        for name in ("first", "next"):
            own = driver.object(self.chain.accounts[0], words=words)
            self.gas_by_name[f"objection by the node, {name}"] = own.gas
            for title, node in (("key", STRANGER_ACCOUNT.address), ("contract", wallet.address)):
                seq = driver.next_seq(node)
                objection = SignedObjection(node, words=words, seq=seq)
                gas = driver.bring(objection, STRANGER_ACCOUNT).gas
                self.gas_by_name[f"objection of a {title}, brought, {name}"] = gas


def draw_seats(seed: bytes, number: int, made: RootRound) -> Iterator[int]:
    """Yield the seats of the tries of a draw, up to the one that takes its node."""
    for attempt in range(1_000):
        hashed = int.from_bytes(keccak(seed + number.to_bytes(32) + attempt.to_bytes(32)))
        yield (seat := hashed % len(made.leaves))
        if made.leaves[seat].lane - 1 > (hashed >> 128) % 10_001:
            return


def measure(chain: Chain, sizes: Sequence[int], read_sizes: Sequence[int]) -> dict[str, int]:
    """Return the gas by name, for these numbers of nodes."""
    meter = Meter(chain)
    for count in read_sizes:
        meter.measure_reads(UniformLeaves(count, OPEN_LANE))
    for count in sizes:
        leaves = UniformLeaves(count, OPEN_LANE)
        others = UniformLeaves(count, BETTER_LANE)
        meter.measure_consumers(leaves, others, meter.measure_words(leaves, others))
    meter.measure_challenges()
    meter.measure_objections()
    return meter.gas_by_name


def main() -> int:
    with run_anvil(*FREE_BY_HAND) as url:
        chain = Chain(url)
        gas_by_name = measure(chain, SIZES, READ_SIZES)
        chain.close()
    KEPT.write_text(json.dumps(gas_by_name, indent=1) + "\n", "utf-8")
    for name, gas in gas_by_name.items():
        sys.stdout.write(f"{gas:>10,}  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
