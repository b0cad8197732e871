"""An oracle on an Arbitrum chain, whose block numbers come from ArbSys;
a double is at its address.
"""

from dataclasses import replace

import pytest
from web3 import Web3

from tests.contracts.roots.roots_driver import (
    LIMITS,
    TIGHTEST,
    RootReport,
    RootsOracle,
    deploy_roots,
)
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

ARB_SYS = "0x" + 38 * "0" + "64"
ROOT = bytes.fromhex("51" * 32)
# ArbSysDouble numbers its blocks from here.
OFFSET = 1_000_000
WINDOW = 256


@pytest.fixture
def oracle(chain: Chain) -> RootsOracle:
    double = chain.deploy("testing/ArbSysDouble")
    chain.rpc("anvil_setCode", ARB_SYS, chain.rpc("eth_getCode", double.address, "latest"))
    window = {"anchorWindow": WINDOW}
    return deploy_roots(chain, arbitrum=True, limits=LIMITS | window, tightest=TIGHTEST | window)


def report_as_of(oracle: RootsOracle, back: int, offset: int = OFFSET) -> RootReport:
    """Return a report as of an ArbSys block before the next transaction."""
    as_of = oracle.chain.block + 1 - back + offset
    encoded = oracle.chain.web3.codec.encode(["string", "uint256"], ["arbitrum", as_of])
    as_of_hash = bytes(Web3.keccak(encoded))
    return RootReport(
        config=bytes(oracle.read("configDigest")),
        count=1,
        round=oracle.round + 1,
        prev=bytes(oracle.read("lastRoot")),
        as_of=as_of,
        as_of_hash=as_of_hash,
        deadline=oracle.chain.time + 3_500,
        root=ROOT,
        domain=oracle.domain,
    )


@pytest.mark.parametrize("back", [1, WINDOW])
def test_block_confirmed_by_arb_sys_is_accepted(oracle: RootsOracle, back: int):
    report = report_as_of(oracle, back)
    oracle.push(report)
    assert oracle.read("last")[1] == report.as_of


@pytest.mark.parametrize(
    ("back", "error"), [(0, "StaleAsOf"), (WINDOW + 1, "AsOfTooOld")], ids=["current", "too old"]
)
def test_as_of_block_outside_arb_sys_window_is_rejected(
    oracle: RootsOracle, back: int, error: str
):
    with pytest.raises(RevertedError, match=error):
        oracle.push(report_as_of(oracle, back))


def test_block_hash_unconfirmed_by_arb_sys_is_rejected(oracle: RootsOracle):
    block = oracle.chain.rpc("eth_getBlockByNumber", "latest", False)
    report = report_as_of(oracle, 1)
    wrong = replace(report, as_of_hash=bytes.fromhex(block["hash"][2:]))
    with pytest.raises(RevertedError, match=rf"Reorged\({report.as_of}, "):
        oracle.push(wrong)


def test_parent_chain_block_number_is_rejected_as_too_old(oracle: RootsOracle):
    with pytest.raises(RevertedError, match="AsOfTooOld"):
        oracle.push(report_as_of(oracle, 1, offset=0))
