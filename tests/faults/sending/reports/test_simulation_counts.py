"""Counts of simulated calls, and of calls on which too few endpoints agree."""

from oracle.store.outbox.records import PUSH
from oracle.telemetry.outbox_metrics import SIMULATIONS
from oracle.telemetry.txmgr_metrics import UNDECIDED
from tests.support.harness import FINALITY, Harness
from tests.support.sending.faults import return_null
from tests.support.sending.proxy import Proxy

RECEIPT = "eth_getTransactionReceipt"


def read_simulation_count(result: str) -> float:
    return float(SIMULATIONS.labels("push", result)._value.get())


def test_each_push_is_simulated_at_admission_and_at_signing(
    harness: Harness,
):
    before = read_simulation_count("ok")
    harness.pushed()
    assert harness.states(PUSH) == ["mined"]
    assert read_simulation_count("ok") == before + 2


def test_undecided_nonces_are_counted_per_account(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    """The reports' account has no undecided calls; those of the other account must remain."""
    UNDECIDED.labels("dispatcher").set(3)
    proxies[1].rule(RECEIPT, return_null())
    proxied_harness.pushed()
    proxied_harness.mine(3 * FINALITY)
    proxied_harness.tick()
    counts = [UNDECIDED.labels(role)._value.get() for role in ("dispatcher", "transmitter")]
    UNDECIDED.labels("dispatcher").set(0)
    assert counts == [3, 1]
