"""A quarantined endpoint is no witness for irreversible steps (decision 0146)."""

from oracle.txmgr.confirmer import confirm_transactions
from tests.support.office import FINALITY, Office
from tests.support.sending.proxy import Proxy


def test_receipt_is_not_final_while_second_endpoint_is_quarantined(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    office.pushed()
    office.mine(FINALITY + 1)
    office.index()
    pool = office.context.sender_account.pool
    _, second = pool
    pool.quarantine(second, "showed a false block")
    request_count = len(proxies[1].asked)

    office.repeat(confirm_transactions)
    assert office.states() == ["mined"]

    second.status.release_from_quarantine(pool.clock())
    office.repeat(confirm_transactions)
    assert office.states() == ["final"]
    assert request_count < len(proxies[1].asked)
