"""Gas of every transaction that the oracle's contract takes, measured on Anvil.

Run: .venv/bin/python tests/contracts/gas.py     measures, and writes tests/contracts/gas.json
and tests/contracts/roots/gas.json; with `roots` or `words` only one of them

Whole transactions are counted, base fee and input included. "new" registers the nodes, "steady"
changes their lanes. A signature and a hash have a different number of zero bytes each time, which
cost less: a figure moves by some dozens of gas.
"""

import json
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import Web3

ROOT = Path(__file__).resolve().parents[2]
# Run as a script it finds the packages beside it; so the imports below cannot stand above (E402).
sys.path.insert(0, str(ROOT))

from tests.contracts.oracle_driver import LIMITS, Oracle, deployed, node  # noqa: E402
from tests.contracts.oracle_signing import word  # noqa: E402
from tests.contracts.roots.roots_gas import measure_roots  # noqa: E402
from tests.support.evm.anvil import FREE_BY_HAND, anvil  # noqa: E402
from tests.support.evm.chain import Chain  # noqa: E402

KEPT = ROOT / "tests" / "contracts" / "gas.json"
# Lanes written by a quorum, in words; roots.
PATHS = {"words": KEPT, "roots": ROOT / "tests" / "contracts" / "roots" / "gas.json"}
NODES = 1000
SIZES = (1, 10, 100, 1000)
QUORUMS = (1, 3, 5)

SIGNERS: tuple[LocalAccount, ...] = tuple(
    Account.from_key(Web3.keccak(text=f"signer {number}")) for number in range(9)
)
# A node with a usual score; one more and one less, so that a steady round changes every lane.
FIRST, SECOND = 7_531, 7_530
LOW = 1_000
# As a deployment has them: a tenth of the open lanes may fall in a round.
REAL = LIMITS | {"fallShare": 1_000}


def send(chain: Chain, call, sender: str) -> int:
    """Gas of the mined transaction."""
    transaction = chain.request(call, sender=sender) | {"gas": hex(30_000_000)}
    sent, _ = chain.rpcs(("eth_sendTransaction", transaction), ("evm_mine",))
    return chain.receipt(sent).gas


def bare(chain: Chain, quorum: int) -> Oracle:
    """An oracle without nodes; of 2q - 1 signers q must sign."""
    signers = [signer.address for signer in SIGNERS[: 2 * quorum - 1]]
    return deployed(chain, signers=signers, quorum=quorum, limits=REAL)


def populated(chain: Chain, quorum: int) -> Oracle:
    """An oracle with a thousand nodes.

    The ring of digests is full: the first round in each of its slots costs 17,100 more.
    """
    oracle = bare(chain, quorum)
    for _ in range(0, NODES, 200):
        oracle.registered(200, FIRST, SIGNERS[:quorum])
    assert oracle.read("indexOf", node(NODES - 1)) == NODES - 1
    for _ in range(oracle.read("RECENT_ROUNDS")):
        pushed(oracle, words_of([NODES - 1], SECOND), quorum)
    return oracle


def words_of(indexes: Iterable[int], lane: int, other_lane: int = FIRST) -> list[tuple[int, int]]:
    """The words that hold these indexes: `lane` there, `others` at their neighbours."""
    chosen = set(indexes)
    word_indexes = sorted({index // 16 for index in chosen})

    def lane_at(index: int) -> int:
        return lane if index in chosen else other_lane if index < NODES else 0

    return [(at, word(*(lane_at(16 * at + place) for place in range(16)))) for at in word_indexes]


def pushed(oracle: Oracle, words: Sequence[tuple[int, int]], quorum: int, back: int = 1) -> int:
    """One more round, as of `back` blocks before the last."""
    oracle.chain.mine(2)
    report = oracle.report(*words, as_of=oracle.chain.block - back)
    oracle.chain.later(REAL["minInterval"])
    call = oracle.call(report, report.signed_by(*SIGNERS[:quorum]))
    return send(oracle.chain, call, oracle.transmitter)


def steady(oracle: Oracle, indexes: Sequence[int], quorum: int) -> int:
    """Gas of a report that changes these nodes' scores."""
    with oracle.chain.undone():
        return pushed(oracle, words_of(indexes, SECOND), quorum)


def sample(size: int, *, dense: bool) -> list[int]:
    chosen = random.Random(size)  # noqa: S311 -- the same nodes in every run, nothing secret
    return list(range(size)) if dense else sorted(chosen.sample(range(NODES), size))


# --- everything, by name ---


def of_pushes(oracle: Oracle, quorum: int) -> dict[str, int]:
    """Steady pushes of so many nodes side by side."""
    return {
        f"push, {size} nodes, quorum {quorum}, steady": steady(
            oracle, sample(size, dense=True), quorum
        )
        for size in SIZES
    }


def of_registrations(chain: Chain, quorum: int) -> dict[str, int]:
    """First pushes, and one in which a node takes another's index."""
    oracle, gas_by_name = bare(chain, quorum), {}
    for size in (1, 10, 100, 200):
        with chain.undone():
            receipt = oracle.registered(size, FIRST, SIGNERS[:quorum])
            gas_by_name[f"push, {size} new nodes, quorum {quorum}"] = receipt.gas
    oracle.registered(16, FIRST, SIGNERS[:quorum])
    pushed(oracle, words_of([0], 1), quorum)
    usual = pushed(oracle, words_of([0], 1), quorum)
    words, takers = words_of([0], FIRST), [(node(NODES), node(0))]
    reused = oracle.reported(*words, reused=takers, signers=SIGNERS[:quorum]).gas
    gas_by_name["an index reused, more"] = reused - usual
    return gas_by_name


def of_the_rest(oracle: Oracle, quorum: int) -> dict[str, int]:
    """Kickouts, and a push as of a block that only EIP-2935 knows."""
    chain, does = oracle.chain, oracle.contract.functions

    def sent(call) -> int:
        return send(chain, call, oracle.transmitter)

    chain.send(oracle.network.functions.join(node(0)))
    gas_by_name = {}
    for _ in range(2):
        pushed(oracle, words_of(range(16), LOW), quorum)
    with chain.undone():
        chain.mine(300)
        far = pushed(oracle, words_of([0], SECOND, LOW), quorum, back=290)
        gas_by_name[f"push, 1 node, quorum {quorum}, steady, as of 292 blocks back"] = far
    name = f"proposeKick, quorum {quorum}"
    gas_by_name[name] = sent(oracle.signed_kick(0, SIGNERS[:quorum]))
    with chain.undone():
        cancel = does.cancelKick(node(0), bytes(32))
        gas_by_name["cancelKick"] = send(chain, cancel, oracle.vetoer)
    for _ in range(LIMITS["kickRounds"]):
        pushed(oracle, words_of(range(16), LOW), quorum)
    chain.later(LIMITS["vetoDelay"])
    gas_by_name["executeKick"] = sent(does.executeKick(node(0)))
    three = [signer.address for signer in SIGNERS[:3]]
    gas_by_name["setSigners, 3"] = send(chain, does.setSigners(three, 2), oracle.admin)
    return gas_by_name


def of_reads(oracle: Oracle) -> dict[str, int]:
    """What a consumer's call costs inside a transaction, without the transaction's own 21,000."""
    does, gas_by_name = oracle.contract.functions, {}
    for name in ("weightOf", "isSelectable", "isKickPending"):
        call = oracle.chain.request(getattr(does, name)(node(0)))
        gas_by_name[name] = int(oracle.chain.rpc("eth_estimateGas", call), 16) - 21_000
    return gas_by_name


def measured(chain: Chain) -> dict[str, int]:
    """Gas by the transaction's name."""
    gas_by_name: dict[str, int] = {}
    for quorum in QUORUMS:
        oracle = populated(chain, quorum)
        gas_by_name |= of_pushes(oracle, quorum)
        if quorum == 1:
            gas_by_name |= of_registrations(chain, quorum)
            gas_by_name |= of_reads(oracle)
        if quorum == 3:
            gas_by_name |= of_the_rest(oracle, quorum)
    return gas_by_name


def main(names: Sequence[str]) -> int:
    """Measure and write the figures of these contracts, or of all of them."""
    for name in names or PATHS:
        with anvil(*FREE_BY_HAND) as url:
            chain = Chain(url)
            gas_by_name = measure_roots(chain, SIGNERS) if name == "roots" else measured(chain)
            chain.close()
        PATHS[name].write_text(json.dumps(gas_by_name, indent=1) + "\n", "utf-8")
        for transaction, gas in gas_by_name.items():
            sys.stdout.write(f"{gas:>10,}  {transaction}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
