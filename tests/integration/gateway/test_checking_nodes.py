"""Nodes are queried over HTTP, and excluded by their responses."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gateway.check_schedule import ChainCheck, StakeWatch
from gateway.gateway_config import ChecksSection
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckedNode, CheckRules, NodeChecks
from gateway.selection_service import SelectionService
from gateway.session_selector import NoCandidatePassesError, SelectionRequest
from oracle.domain.ids import Address
from oracle.domain.state import Membership, create_node
from oracle.store.database import Store
from tests.integration.gateway.json_rpc_node import RpcNode, answering

CHAIN = "0021"
PATIENCE_SECONDS = 60


@contextmanager
def checking(
    store: Store, urls: dict[str, str], *, needs_stake: bool = False, every: float = 3600
) -> Iterator[tuple[SelectionService, ChainCheck]]:
    rules = CheckRules(chain_id=1, needs_stake=needs_stake)
    checks = {CHAIN: NodeChecks(rules, {node: CheckedNode() for node in urls})}
    service = SelectionService(store, GatewayRules(ranking_ms=0), checks, lambda: None)
    section = ChecksSection(chain_id=1, urls=urls, every_seconds=every, timeout_seconds=1.0)
    check = ChainCheck(CHAIN, section, service, min_seconds=0.01)
    try:
        yield service, check
    finally:
        check.stop_checks()


@pytest.fixture
def opened(sqlite_url: str) -> Iterator[Store]:
    with Store.open(sqlite_url) as store:
        yield store


def list_excluded_nodes(service: SelectionService, *nodes: str) -> dict[str, str]:
    ranked, _ = service.get_ranking_and_seed(SelectionRequest(CHAIN, "s", nodes))
    return {str(node): reason for node, reason in ranked.ranking.left_out.items()}


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"http://127.0.0.1:{held.getsockname()[1]}"


def test_node_that_fails_its_probe_is_excluded_with_a_reason(opened: Store):
    nodes = {
        "well": RpcNode(),
        "also": RpcNode(height=98),
        "third": RpcNode(height=102),
        "late": RpcNode(height=90),
        "boasts": RpcNode(height=10**6),
        "other": RpcNode(chain_id=2),
        "broken": RpcNode(raw=b"<html>"),
        "huge": RpcNode(raw=b'"' + b"x" * 10**6 + b'"'),
        "odd": RpcNode(raw=b'{"jsonrpc":"2.0","id":1,"result":{}}'),
    }
    urls = {name: node.url for name, node in nodes.items()} | {"gone": closed_port()}
    with answering(*nodes.values()), checking(opened, urls) as (service, check):
        check.check_nodes()
        reason_by_node = list_excluded_nodes(service, *urls)
    assert {
        name: reason_by_node.get(name, "in") for name in ("well", "also", "third")
    } == dict.fromkeys(("well", "also", "third"), "in")
    assert (reason_by_node["late"], reason_by_node["boasts"], reason_by_node["other"]) == (
        "behind",
        "beyond",
        "wrong_chain",
    )
    assert all(
        reason_by_node[name].startswith("probe_") for name in ("broken", "huge", "odd", "gone")
    )


def test_node_check_requests_chain_id_and_height_but_records_no_outcome(opened: Store):
    node = RpcNode()
    with answering(node), checking(opened, {"a": node.url}) as (service, check):
        check.check_nodes()
        assert service.get_node_stats("a") == []
    assert node.received_requests == ["eth_chainId", "eth_blockNumber"]


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE_SECONDS * 100):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it never was")


def test_recovered_node_is_available_after_the_next_probe(opened: Store):
    node = RpcNode(chain_id=2)
    other_node = RpcNode()
    urls = {"a": node.url, "b": other_node.url}
    with answering(node, other_node), checking(opened, urls) as (service, check):
        check.start_checks()
        wait_until(lambda: list_excluded_nodes(service, "a", "b") == {"a": "wrong_chain"})
        node.chain_id = 1
        check.request_round()
        wait_until(lambda: list_excluded_nodes(service, "a", "b") == {})


def test_repeated_node_check_requests_are_rate_limited(opened: Store):
    node = RpcNode()
    with answering(node), checking(opened, {"a": node.url}) as (service, _):
        section = ChecksSection(chain_id=1, urls={"a": node.url})
        check = ChainCheck(CHAIN, section, service, min_seconds=3600)
        check.start_checks()
        wait_until(lambda: len(node.received_requests) == 2)
        for _ in range(100):
            check.request_round()
        check.stop_checks()
        check._thread.join(PATIENCE_SECONDS)
        assert not check._thread.is_alive()
    assert node.received_requests == ["eth_chainId", "eth_blockNumber"]


def test_node_without_stake_or_membership_is_excluded(
    opened: Store, tmp_path_factory: pytest.TempPathFactory
):
    daemons = f"sqlite:///{tmp_path_factory.mktemp('daemon') / 'd.sqlite'}"
    staked, poor, quit_one = (Address("0x" + 40 * digit) for digit in "123")
    with Store.open(daemons, create=True) as daemon:
        stored_nodes = [
            create_node(address, seat, 0, 0)
            for seat, address in enumerate((staked, poor, quit_one))
        ]
        for node, stake in zip(stored_nodes, (10**18, 0, 10**18), strict=True):
            node.stake, node.membership = stake, Membership.MEMBER
        stored_nodes[2].membership = Membership.QUIT
        with daemon.transaction() as uow:
            uow.nodes.save(stored_nodes)
        urls = {str(node): closed_port() for node in (staked, poor, quit_one)}
        with checking(opened, urls, needs_stake=True) as (service, _):
            every = (staked, poor, quit_one)
            with pytest.raises(NoCandidatePassesError):
                list_excluded_nodes(service, *every)
            StakeWatch(daemon, 1, service).update_staked_nodes()
            assert list_excluded_nodes(service, *every) == dict.fromkeys(
                (poor, quit_one), "not_staked"
            )
