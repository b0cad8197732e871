"""The block that a report speaks of must be on this chain, and not too far back."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from web3 import Web3

from tests.contracts.oracle_driver import LIMITS, Oracle, deployed, full, node
from tests.contracts.oracle_signing import word
from tests.support.evm.anvil import FREE_BY_HAND, anvil
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

FIVE, ONE_NODE = (0, full(5)), (0, word(5))
ARB_SYS = "0x" + 38 * "0" + "64"


def test_previous_block_is_valid_as_of_block(oracle: Oracle):
    oracle.push(oracle.report(FIVE, as_of=oracle.chain.block))
    assert oracle.round == 2


@pytest.mark.parametrize("ahead", [1, 2, 1000])
def test_future_as_of_block_is_rejected(oracle: Oracle, ahead: int):
    late = oracle.chain.block + ahead
    with pytest.raises(RevertedError, match=rf"StaleAsOf\({late}\)"):
        oracle.push(replace(oracle.report(FIVE), as_of=late))


def test_as_of_block_not_newer_than_last_report_is_rejected(oracle: Oracle):
    as_of = oracle.reported(FIVE).only("RoundAccepted")["asOf"]
    oracle.chain.mine(2)
    for stale in (as_of, as_of - 1):
        oracle.chain.later(LIMITS["minInterval"])
        with pytest.raises(RevertedError, match=rf"StaleAsOf\({stale}\)"):
            oracle.push(oracle.report(FIVE, as_of=stale))


def test_hash_of_another_block_is_rejected(oracle: Oracle):
    right, wrong = oracle.report(FIVE), bytes(31) + b"\x01"
    report = oracle.report(FIVE, as_of_hash=wrong)
    with pytest.raises(RevertedError, match="Reorged") as caught:
        oracle.push(report)
    assert caught.value.values == (report.as_of, wrong, right.as_of_hash)


def test_zero_hash_does_not_disable_the_block_hash_check(oracle: Oracle):
    with pytest.raises(RevertedError, match="Reorged"):
        oracle.push(oracle.report(FIVE, as_of_hash=bytes(32)))


# --- reorgs, each on a chain of its own: Anvil's snapshots do not survive them ---


@pytest.fixture
def brittle() -> Iterator[Oracle]:
    with anvil() as url:
        chain = Chain(url)
        oracle = deployed(chain, limits=LIMITS | {"minInterval": 0})
        oracle.registered(1)
        chain.mine(5)
        yield oracle
        chain.close()


def test_report_of_reorged_block_is_rejected(brittle: Oracle):
    oracle, chain = brittle, brittle.chain
    report = oracle.report(ONE_NODE)
    tip = {"from": chain.accounts[8], "to": chain.accounts[9], "value": "0x1"}
    chain.rpc("anvil_reorg", 4, [[tip, 0]])  # a transaction more, so that the blocks differ
    with pytest.raises(RevertedError, match=rf"Reorged\({report.as_of}, "):
        oracle.push(report)
    oracle.push(oracle.report(ONE_NODE))
    assert oracle.round == 2


def test_report_based_on_a_reorged_round_is_rejected(brittle: Oracle):
    oracle, chain = brittle, brittle.chain
    first, rival = oracle.report(ONE_NODE), oracle.report((0, word(6)))
    oracle.push(first)
    gone = bytes(oracle.read("lastReport"))

    chain.rpc("anvil_reorg", 1, [])
    assert oracle.round == 1
    oracle.push(rival)
    chain.mine(2)
    chain.later(LIMITS["minInterval"])
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(oracle.report(ONE_NODE, prev=gone))
    oracle.push(oracle.report(ONE_NODE))
    assert oracle.round == 3


def test_kick_signed_for_a_reorged_round_is_rejected(brittle: Oracle):
    oracle, chain = brittle, brittle.chain
    low, rival = oracle.report(ONE_NODE), oracle.report((0, word(6)))
    oracle.push(low)
    late, gone = oracle.signed_kick(0), bytes(oracle.read("lastReport"))

    chain.rpc("anvil_reorg", 1, [])
    assert oracle.round == 1
    oracle.push(rival)
    with pytest.raises(RevertedError, match="WrongReport") as caught:
        oracle.send(late)
    assert caught.value.values == (bytes(oracle.read("lastReport")), gone)
    assert oracle.propose(0).names == ["KickProposed"]


# --- farther back than BLOCKHASH reaches: EIP-2935 ---


@pytest.mark.parametrize("back", [255, 256, 257, 500])
def test_report_with_a_distant_as_of_block_is_accepted(oracle: Oracle, back: int):
    oracle.chain.mine(back)
    oracle.push(oracle.report(FIVE, as_of=oracle.chain.block + 1 - back))
    assert oracle.round == 2


@pytest.mark.parametrize("back", [256, 257, 500])
def test_report_with_a_wrong_hash_of_a_distant_block_is_rejected(oracle: Oracle, back: int):
    oracle.chain.mine(back)
    report = oracle.report(FIVE, as_of=oracle.chain.block + 1 - back, as_of_hash=b"\x01" * 32)
    with pytest.raises(RevertedError, match=rf"Reorged\({report.as_of}, "):
        oracle.push(report)


def test_anchor_window_is_exact_to_the_block(oracle: Oracle):
    oracle.limited(anchorWindow=50)
    oracle.chain.mine(60)
    old = oracle.chain.block + 1 - 51
    with oracle.chain.undone(), pytest.raises(RevertedError, match=rf"AsOfTooOld\({old}\)"):
        oracle.push(oracle.report(FIVE, as_of=old))
    oracle.push(oracle.report(FIVE, as_of=old + 1))
    assert oracle.round == 2


HISTORY = "0x0000f90827f1c53a10cb7a02335b175320002935"


@pytest.fixture
def aged() -> Iterator[Oracle]:
    """A chain twenty thousand blocks old, and the widest window there can be."""
    with anvil(*FREE_BY_HAND, "--number", "20000") as url:
        chain = Chain(url)
        oracle = deployed(chain, limits=LIMITS | {"anchorWindow": 8_191})
        chain.mine(3)
        yield oracle
        chain.close()


@pytest.mark.slow
@pytest.mark.parametrize("back", [257, 4_096, 8_190, 8_191])
def test_history_contract_provides_hashes_up_to_the_widest_anchor_window(aged: Oracle, back: int):
    """It has kept the hash of every block; that of one is written here as the chain would."""
    as_of, stored_hash = aged.chain.block + 1 - back, b"\x07" * 32
    report = replace(aged.report(ONE_NODE, fresh=[node(0)]), as_of=as_of, as_of_hash=stored_hash)
    with pytest.raises(RevertedError, match=rf"Reorged\({as_of}, "):
        aged.push(report)
    # That attempt made a block: the window went on by one.
    report = replace(report, as_of=as_of + 1)
    slot = f"0x{report.as_of % 8_191:064x}"
    aged.chain.rpc("anvil_setStorageAt", HISTORY, slot, "0x" + stored_hash.hex())
    aged.push(report)
    assert aged.head("asOf") == as_of + 1


@pytest.mark.slow
def test_report_with_as_of_block_beyond_the_widest_window_is_rejected(aged: Oracle):
    as_of = aged.chain.block + 1 - 8_192
    with pytest.raises(RevertedError, match=rf"AsOfTooOld\({as_of}\)"):
        aged.push(replace(aged.report(ONE_NODE, fresh=[node(0)]), as_of=as_of))


@pytest.fixture(scope="module")
def old_chain() -> Iterator[Chain]:
    """A chain without EIP-2935."""
    with anvil(*FREE_BY_HAND, "--hardfork", "cancun") as url:
        chain = Chain(url)
        yield chain
        chain.close()


def test_oldest_accepted_as_of_block_is_256_back_without_eip_2935(old_chain: Chain):
    oracle = deployed(old_chain)
    old_chain.mine(300)
    far = oracle.report(ONE_NODE, fresh=[node(0)], as_of=old_chain.block + 1 - 257)
    with pytest.raises(RevertedError, match="Reorged") as caught:
        oracle.push(far)
    assert caught.value.values == (far.as_of, far.as_of_hash, bytes(32))
    with pytest.raises(RevertedError, match="Reorged"):  # not knowing is not agreeing
        oracle.push(replace(far, as_of_hash=bytes(32)))

    oracle.push(oracle.report(ONE_NODE, fresh=[node(0)], as_of=old_chain.block + 1 - 256))
    assert oracle.round == 1


# --- Arbitrum: numbers and hashes of its own ---


def arbitrum(chain: Chain) -> Oracle:
    """An oracle that asks ArbSys, where the blocks are 1,000,000 ahead of block.number's."""
    double = chain.deploy("testing/ArbSysDouble")
    chain.rpc("anvil_setCode", ARB_SYS, chain.rpc("eth_getCode", double.address, "latest"))
    return deployed(chain, arbitrum=True, limits=LIMITS | {"anchorWindow": 256})


def arb_hash(number: int) -> bytes:
    return bytes(Web3.keccak(Web3().codec.encode(["string", "uint256"], ["arbitrum", number])))


@pytest.mark.parametrize("back", [1, 100, 256])
def test_as_of_block_is_an_arbitrum_block_number_on_arbitrum(chain: Chain, back: int):
    oracle = arbitrum(chain)
    as_of = chain.block + 1 + 1_000_000 - back
    report = oracle.report(ONE_NODE, fresh=[node(0)])
    oracle.push(replace(report, as_of=as_of, as_of_hash=arb_hash(as_of)))
    assert oracle.head("asOf") == as_of


@pytest.mark.parametrize(
    ("back", "error"), [(0, "StaleAsOf"), (257, "AsOfTooOld"), (1_000_000, "AsOfTooOld")]
)
def test_anchor_window_counts_arbitrum_blocks_on_arbitrum(chain: Chain, back: int, error: str):
    oracle = arbitrum(chain)
    as_of = chain.block + 1 + 1_000_000 - back
    report = replace(oracle.report(ONE_NODE), as_of=as_of, as_of_hash=arb_hash(as_of))
    with pytest.raises(RevertedError, match=error):
        oracle.push(report)


def test_parent_chain_hash_is_rejected_on_arbitrum(chain: Chain):
    oracle = arbitrum(chain)
    as_of = chain.block + 1_000_000
    with pytest.raises(RevertedError, match=rf"Reorged\({as_of}, "):
        oracle.push(replace(oracle.report(ONE_NODE), as_of=as_of))
