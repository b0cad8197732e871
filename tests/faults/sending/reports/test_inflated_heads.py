"""One endpoint shows a head far above the chain's; reports are published all the same."""

import pytest

from oracle.indexer.block_confirmation import get_refusal
from tests.faults.sending.conftest import OpenProxy
from tests.support.harness import LIMITS, Harness
from tests.support.sending.faults import inflate_head
from tests.support.sending.proxy import EVERY, Proxy

LEADS = [3, LIMITS.anchor_window + 3]


def restart_on(harness: Harness, *proxies: Proxy) -> None:
    harness.restart(urls=[endpoint_proxy.url for endpoint_proxy in proxies])


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("lead", LEADS)
def test_inflated_head_of_one_of_two_endpoints_does_not_stop_publishing(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], lead: int, position: int
):
    harness = proxied_harness
    harness.pushed()
    proxies[position].rule(EVERY, inflate_head(lead))

    harness.pushed()
    harness.restart()
    harness.pushed()

    assert harness.testbed.round == 3


@pytest.mark.parametrize("position", [0, 1, 2])
def test_inflated_head_of_one_of_three_endpoints_does_not_stop_publishing(
    sqlite_harness: Harness, open_proxy: OpenProxy, position: int
):
    harness = sqlite_harness
    proxies = [open_proxy() for _ in range(3)]
    restart_on(harness, *proxies)
    proxies[position].rule(EVERY, inflate_head(LIMITS.anchor_window + 3))

    harness.pushed()
    proxies[position].heal()
    proxies[(position + 1) % 3].rule(EVERY, inflate_head(3))
    harness.pushed()

    assert harness.testbed.round == 2


@pytest.mark.parametrize(
    ("honest_position", "is_late", "has_parent"),
    [(0, False, False), (2, False, True), (2, True, True)],
)
def test_head_invented_by_two_of_three_endpoints_does_not_stop_publishing(
    sqlite_harness: Harness,
    open_proxy: OpenProxy,
    honest_position: int,
    *,
    is_late: bool,
    has_parent: bool,
):
    harness = sqlite_harness
    proxies = [open_proxy() for _ in range(3)]
    restart_on(harness, *proxies)
    if is_late:
        harness.pushed()
    for position, endpoint_proxy in enumerate(proxies):
        if position != honest_position:
            fault = inflate_head(LIMITS.anchor_window + 3, has_parent=has_parent)
            endpoint_proxy.rule(EVERY, fault)
    for restarts in (False, True):
        round_before = harness.testbed.round
        if restarts:
            harness.restart()
        # The invented heads may delay the first report by a few periods.
        for _ in range(5):
            harness.period()
            harness.tick()
            harness.mine()
        assert harness.testbed.round > round_before
    with harness.store.read_transaction() as uow:
        assert (get_refusal(uow) is not None) == has_parent
