"""A quarantined endpoint is no witness for irreversible steps (decision 0146)."""

from oracle.txmgr.confirmer import confirm_transactions
from tests.support.harness import FINALITY, Harness
from tests.support.sending.proxy import Proxy


def test_receipt_is_not_final_while_its_witness_is_quarantined(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.pushed()
    harness.mine(FINALITY + 1)
    harness.index()
    pool = harness.context.sender_account.pool
    _, second = pool
    pool.quarantine(second, "showed a false block")
    request_count = len(proxies[1].received_requests)

    harness.repeat(confirm_transactions)
    assert harness.states() == ["mined"]

    second.status.release_from_quarantine(pool.clock())
    harness.repeat(confirm_transactions)
    assert harness.states() == ["final"]
    assert request_count < len(proxies[1].received_requests)
