"""One of two endpoints stands still, or begins anew: what it says of its newest block is over."""

import pytest

from oracle.errors import TransientError
from oracle.services.planning import plan_push
from tests.office import Office
from tests.sending.faults import answer_dropped, stale
from tests.sending.proxy import EVERY, Proxy


@pytest.mark.parametrize("place", [0, 1])
def test_rounds_go_on_while_one_endpoint_stands_still(
    proxied_office: Office, proxies: tuple[Proxy, Proxy], place: int
):
    office = proxied_office
    office.pushed()
    proxies[place].rule(EVERY, stale(office.premises.chain.block - 1))
    office.mine(10)
    for _ in range(2):
        office.pushed()
    assert office.states() == ["mined"] * 3


def test_an_endpoint_that_reads_the_chain_from_its_start_again_ends_no_daemon(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    office.pushed()
    # There, the contract is not deployed yet.
    proxies[0].rule(EVERY, stale(0))
    office.pushed()
    assert office.premises.round == 2


def test_one_that_lost_the_chain_and_answers_alone_ends_no_daemon(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    office.pushed()
    office.period()
    office.index()
    heads = office.source.heads()
    proxies[0].rule(EVERY, stale(0))
    proxies[1].rule(EVERY, answer_dropped())
    with pytest.raises(TransientError, match="lost the chain"):
        plan_push(office.desk, heads)


def test_where_all_endpoints_stand_still_nothing_is_lost(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    office.pushed()
    for one in proxies:
        one.rule(EVERY, stale(office.premises.chain.block))
    office.period()
    office.tick()
    assert office.states() == ["mined"]
    for one in proxies:
        one.heal()
    office.tick()
    office.mine()
    assert office.premises.round == 2
