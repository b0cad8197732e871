"""Dependencies between the daemon's loops."""

import pytest

from oracle.errors import InputError, TransientError
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import Fault, run_faulty_endpoint
from tests.support.office import sending_jobs_of
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]


def test_no_report_is_planned_before_nonces_are_reconciled(sqlite_office):
    office = sqlite_office
    with run_faulty_endpoint(office.premises.chain.url) as endpoint:
        office.restart(urls=[endpoint.url])
        office.period()
        office.index()
        sender = office.premises.transmitter
        office.premises.chain.rpc("anvil_setNonce", sender, hex(99))
        jobs = sending_jobs_of(office)
        endpoint.faults["eth_getTransactionCount"] = Fault.SWALLOW
        with pytest.raises(TransientError):
            jobs.reconcile_nonces()

        endpoint.faults.clear()
        with pytest.raises(InputError, match="has used nonces up to 98"):
            jobs.advance_reports()
        assert office.states() == []
