"""Dependencies between the daemon's loops."""

import pytest

from oracle.errors import InputError, TransientError
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import Fault, run_faulty_endpoint
from tests.support.harness import create_sending_jobs
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]


def test_no_report_is_planned_until_nonces_are_reconciled(sqlite_harness):
    harness = sqlite_harness
    with run_faulty_endpoint(harness.testbed.chain.url) as endpoint:
        harness.restart(urls=[endpoint.url])
        harness.period()
        harness.index()
        sender = harness.testbed.transmitter
        harness.testbed.chain.rpc("anvil_setNonce", sender, hex(99))
        jobs = create_sending_jobs(harness)
        endpoint.faults["eth_getTransactionCount"] = Fault.SWALLOW
        with pytest.raises(TransientError):
            jobs.reconcile_nonces()

        endpoint.faults.clear()
        with pytest.raises(InputError, match="has used nonces up to 98"):
            jobs.advance_reports()
        assert harness.states() == []
