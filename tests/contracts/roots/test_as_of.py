"""The contract reads the hash of a report's as-of block from the chain, whatever its age."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.contracts.roots.roots_driver import LIMITS, RootReport, RootsOracle, deploy_roots
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

ROOT = bytes.fromhex("51" * 32)
WRONG = bytes(31) + b"\x01"
# The contract of EIP-2935, which keeps the hashes of 8191 blocks.
HISTORY = "0x0000f90827f1c53a10cb7a02335b175320002935"


def report(oracle: RootsOracle, back: int, **changes: bytes) -> RootReport:
    """Return a report as of a block `back` before that of the next transaction."""
    return oracle.report(ROOT, as_of=oracle.chain.block + 1 - back, **changes)


@pytest.mark.parametrize("back", [1, 255, 256, 257, 500])
def test_report_based_on_an_old_block_is_accepted(chain: Chain, back: int):
    oracle = deploy_roots(chain)
    chain.mine(back)
    oracle.push(report(oracle, back))
    assert oracle.round == 1


@pytest.mark.parametrize("back", [1, 256, 257, 500])
@pytest.mark.parametrize("wrong", [WRONG, bytes(32)], ids=["other", "zero"])
def test_report_with_a_wrong_block_hash_is_rejected(chain: Chain, back: int, wrong: bytes):
    oracle = deploy_roots(chain)
    chain.mine(back)
    right = report(oracle, back)
    with pytest.raises(RevertedError, match="Reorged") as caught:
        oracle.push(replace(right, as_of_hash=wrong))
    assert caught.value.values == (right.as_of, wrong, right.as_of_hash)


@pytest.fixture
def aged() -> Iterator[RootsOracle]:
    """A chain twenty thousand blocks old, and the widest window that there is."""
    with run_anvil(*FREE_BY_HAND, "--number", "20000") as url:
        chain = Chain(url)
        oracle = deploy_roots(chain, limits=LIMITS | {"anchorWindow": 8_191})
        chain.mine(3)
        yield oracle
        chain.close()


@pytest.mark.slow
@pytest.mark.parametrize("back", [257, 4_096, 8_190, 8_191])
def test_history_contract_covers_the_widest_anchor_window(aged: RootsOracle, back: int):
    """Anvil's history contract is empty; one hash is written here as a chain would."""
    as_of = aged.chain.block + 1 - back
    stored_hash = b"\x07" * 32
    first = replace(aged.report(ROOT), as_of=as_of, as_of_hash=stored_hash)
    with pytest.raises(RevertedError, match=rf"Reorged\({as_of}, "):
        aged.push(first)
    # The attempt mined a block, so the window moved by one.
    second = replace(first, as_of=as_of + 1)
    slot = f"0x{second.as_of % 8_191:064x}"
    aged.chain.rpc("anvil_setStorageAt", HISTORY, slot, "0x" + stored_hash.hex())
    aged.push(second)
    assert aged.head("asOf") == as_of + 1


@pytest.mark.slow
def test_block_beyond_the_widest_anchor_window_is_rejected(aged: RootsOracle):
    as_of = aged.chain.block + 1 - 8_192
    with pytest.raises(RevertedError, match=rf"AsOfTooOld\({as_of}\)"):
        aged.push(replace(aged.report(ROOT), as_of=as_of))


@pytest.fixture(scope="module")
def old_chain() -> Iterator[Chain]:
    """Yield a chain without EIP-2935."""
    with run_anvil(*FREE_BY_HAND, "--hardfork", "cancun") as url:
        chain = Chain(url)
        yield chain
        chain.close()


def test_block_is_at_most_256_blocks_old_without_eip_2935(old_chain: Chain):
    oracle = deploy_roots(old_chain)
    old_chain.mine(300)
    far = report(oracle, 257)
    with pytest.raises(RevertedError, match="Reorged") as caught:
        oracle.push(far)
    assert caught.value.values == (far.as_of, far.as_of_hash, bytes(32))
    # A hash that the chain does not return is not confirmed by 0.
    with pytest.raises(RevertedError, match="Reorged"):
        oracle.push(replace(far, as_of_hash=bytes(32)))
    oracle.push(report(oracle, 256))
    assert oracle.round == 1
