"""The holders of a timelock's roles are read from its logs, however an endpoint serves them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from web3.contract import Contract

from oracle.bindings.timelock import ROLE_ID_BY_NAME, RoleHolder, fetch_timelock_roles
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import TransientError
from tests.pools import view_of
from tests.support.evm.anvil import run_anvil
from tests.support.evm.chain import Chain
from tests.support.faulty_endpoint import FaultyEndpoint, run_faulty_endpoint

pytestmark = pytest.mark.evm

DAY = 86_400


@dataclass
class Deployed:
    """A timelock whose deployer stayed admin: one proposer was added, one revoked."""

    chain: Chain
    contract: Contract
    block: int

    @property
    def address(self) -> Address:
        return Address(self.contract.address.lower())

    @property
    def people(self) -> list[Address]:
        """Return deployer, first proposer, and second proposer."""
        return [Address(who.lower()) for who in self.chain.accounts[:3]]

    @property
    def held(self) -> set[RoleHolder]:
        deployer, first, second = self.people
        return {
            RoleHolder("admin", self.address),
            RoleHolder("admin", deployer),
            # It can still cancel.
            RoleHolder("canceller", first),
            RoleHolder("proposer", second),
            RoleHolder("executor", ZERO_ADDRESS),
        }


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    with run_anvil() as url:
        chain = Chain(url)
        deployer, first, second = chain.accounts[:3]
        chain.mine(5)
        timelock = chain.deploy("TimelockController", DAY, [first], [ZERO_ADDRESS], deployer)
        block = chain.block
        chain.mine(30)
        chain.send(timelock.functions.grantRole(ROLE_ID_BY_NAME["proposer"], second))
        chain.send(timelock.functions.revokeRole(ROLE_ID_BY_NAME["proposer"], first))
        yield Deployed(chain, timelock, block)
        chain.close()


def narrow(endpoint: FaultyEndpoint, max_blocks: int) -> None:
    """Reject logs over more than `max_blocks` blocks, like many providers."""
    plain = endpoint.answer

    def answer(body: bytes) -> bytes | None:
        payload = json.loads(body)
        for request in payload if isinstance(payload, list) else [payload]:
            if request["method"] == "eth_getLogs":
                (span,) = request["params"]
                blocks = int(span["toBlock"], 16) - int(span["fromBlock"], 16) + 1
                refused = {"eth_getLogs": f"block range is limited to {max_blocks}"}
                endpoint.faults = {**refused} if blocks > max_blocks else {}
        return plain(body)

    endpoint.answer = answer  # type: ignore[method-assign]


def test_current_timelock_role_holders_are_returned(deployed: Deployed):
    roles = fetch_timelock_roles(view_of(deployed.chain.url), deployed.address, 0)
    deployer, first, second = deployed.people
    assert roles.holders == deployed.held
    assert roles.is_complete
    assert roles.format_line() == (
        f"roles of the timelock: proposer {second}; executor anyone; canceller {first}; "
        f"admin itself, {deployer}"
    )


@pytest.mark.parametrize("max_range", [1, 7, 20])
def test_endpoint_with_small_log_range_is_queried_in_small_ranges(
    deployed: Deployed, max_range: int
):
    with run_faulty_endpoint(deployed.chain.url) as endpoint:
        narrow(endpoint, max_range)
        roles = fetch_timelock_roles(view_of(endpoint.url), deployed.address, 0)
    assert roles.holders == deployed.held


def test_role_history_without_the_constructor_block_is_incomplete(deployed: Deployed):
    view = view_of(deployed.chain.url)
    assert fetch_timelock_roles(view, deployed.address, deployed.block).is_complete
    late = fetch_timelock_roles(view, deployed.address, deployed.block + 1)
    assert not late.is_complete
    assert late.holders == {RoleHolder("proposer", deployed.people[2])}


def test_logs_omitted_by_one_endpoint_are_read_from_another(deployed: Deployed):
    with run_faulty_endpoint(deployed.chain.url) as endpoint:
        hide_logs(endpoint)
        alone = fetch_timelock_roles(view_of(endpoint.url), deployed.address, 0)
        both = fetch_timelock_roles(view_of(endpoint.url, deployed.chain.url), deployed.address, 0)
    assert not alone.holders
    assert not alone.is_complete
    assert both.holders == deployed.held
    assert both.is_complete


def hide_logs(endpoint: FaultyEndpoint) -> None:
    """Answer every request for logs with an empty list."""
    plain = endpoint.answer

    def answer(body: bytes) -> bytes | None:
        payload = json.loads(body)
        (request,) = payload if isinstance(payload, list) else [payload]
        if request["method"] != "eth_getLogs":
            return plain(body)
        empty = {"jsonrpc": "2.0", "id": request["id"], "result": []}
        return json.dumps([empty] if isinstance(payload, list) else empty).encode()

    endpoint.answer = answer  # type: ignore[method-assign]


def test_roles_are_unknown_when_no_endpoint_returns_logs(deployed: Deployed):
    with run_faulty_endpoint(deployed.chain.url) as endpoint:
        endpoint.faults = {"eth_getLogs": "the method is not available"}
        with pytest.raises(TransientError, match="is not available"):
            fetch_timelock_roles(view_of(endpoint.url), deployed.address, 0)
