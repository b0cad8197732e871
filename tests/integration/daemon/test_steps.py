"""What the daemon's loops do for each other."""

import time

import pytest

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.steps import DaemonSteps
from oracle.errors import InputError, TransientError
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import Fault, faulty_endpoint
from tests.support.office import app_of
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]


def test_nothing_is_planned_before_the_nonces_were_compared(sqlite_office):
    office = sqlite_office
    with faulty_endpoint(office.premises.chain.url) as endpoint:
        office.restart(urls=[endpoint.url])
        office.period()
        office.index()
        sender = office.premises.transmitter
        office.premises.chain.rpc("anvil_setNonce", sender, hex(99))
        watch = DaemonHealth(JobLiveness(time.monotonic))
        work = DaemonSteps(
            app_of(office), office.epoch, watch, office.contexts, ingest=office.ingest
        )
        endpoint.faults["eth_getTransactionCount"] = Fault.SWALLOW
        with pytest.raises(TransientError):
            work.compare()

        endpoint.faults.clear()
        with pytest.raises(InputError, match="has used nonces up to 98"):
            work.publish()
        assert office.states() == []
