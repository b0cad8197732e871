"""Who sets the roles and limits of the reference network."""

from typing import Any

import pytest

from tests.support.evm.artifacts import load_artifact
from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import FLOOR, MIN_STAKE, NOBODY, Network, Settings

pytestmark = pytest.mark.evm

MONTH = 30 * 86400
DEFAULTS = tuple(Settings())
# Functions that any account may call; they check the state of the sender's own node or task.
OPEN_TO_ALL = {
    *("join", "pause", "resume", "quit", "addStake", "updateVersion", "setTimeout", "addModel"),
    *("createTask", "cancelTask", "cancelGroup", "validateTask", "acceptError", "validateGroup"),
    *("submitResult", "reportError", "commitAnswer", "revealAnswer", "timeOutTask"),
    *("endUnvalidated", "giveUpGroup", "settleContest", "fund", "withdraw", "acceptAdmin"),
}
ERROR_BY_FUNCTION = {
    **dict.fromkeys(
        ("queueTask", "dropTask", "dropGroup", "startTask", "startTaskAsOf", "startGroup"),
        "NotDispatcher",
    ),
    **dict.fromkeys(("probe", "requestDownload"), "NotDispatcher"),
    "kick": "NotOracle",
}
# All other functions that change the state: a further one is for the admin, or the test fails.
GUARDED = [
    function
    for function in load_artifact("TaskNetwork")["abi"]
    if function["type"] == "function"
    and function["stateMutability"] not in ("view", "pure")
    and function["name"] not in OPEN_TO_ALL
]


@pytest.fixture(scope="module")
def empty(fresh_chain: Chain) -> Network:
    return Network.deployed(fresh_chain)


@pytest.fixture
def network(empty: Network, chain: Chain) -> Network:
    return empty


@pytest.fixture
def stranger(network: Network) -> str:
    return network.nodes[5]


def test_new_network_has_configured_roles_and_settings(network: Network):
    does = network.does
    roles = [does.admin().call(), does.dispatcher().call(), does.treasury().call()]

    assert roles == network.chain.accounts[:3]
    assert (does.oracle().call(), does.scores().call()) == (NOBODY, NOBODY)
    assert does.settings().call() == DEFAULTS


@pytest.mark.parametrize("place", [0, 1, 2])
def test_zero_address_role_is_rejected(network: Network, place: int):
    roles = [*network.chain.accounts[:3]]
    roles[place] = NOBODY
    network.chain.contract("TaskNetwork", network.contract.address)
    with pytest.raises(RevertedError, match="ZeroAddress"):
        network.chain.deploy("TaskNetwork", *roles, MIN_STAKE, FLOOR)


def build_zero(parameter: dict[str, Any]) -> Any:
    """Return the zero value of a parameter's ABI type."""
    kind = parameter["type"]
    if kind.endswith("[]"):
        return []
    if kind == "tuple":
        return tuple(map(build_zero, parameter["components"]))
    zeros = {"address": NOBODY, "bool": False, "bytes32": bytes(32), "string": ""}
    return zeros.get(kind, 0)


@pytest.mark.parametrize("function", GUARDED, ids=lambda function: function["name"])
def test_stranger_may_not_call_function_of_a_role(
    network: Network, stranger: str, function: dict[str, Any]
):
    name = function["name"]
    call = network.does[name](*map(build_zero, function["inputs"]))
    with pytest.raises(RevertedError, match=ERROR_BY_FUNCTION.get(name, "NotAdmin")):
        network.by(stranger, call)


def test_admin_transfer_requires_two_steps(network: Network, stranger: str):
    offered = network.by(network.admin, network.does.offerAdmin(stranger))
    with pytest.raises(RevertedError, match="NotOffered"):
        network.by(network.admin, network.does.acceptAdmin())
    accepted = network.by(stranger, network.does.acceptAdmin())

    assert offered.only("AdminOffered") == {"offered": stranger}
    assert accepted.only("AdminChanged") == {"admin": stranger}
    with pytest.raises(RevertedError, match="NotAdmin"):
        network.by(network.admin, network.does.setTreasury(stranger))
    with pytest.raises(RevertedError, match="NotOffered"):
        network.by(stranger, network.does.acceptAdmin())


def test_admin_offer_can_be_withdrawn(network: Network, stranger: str):
    network.by(network.admin, network.does.offerAdmin(stranger))
    network.by(network.admin, network.does.offerAdmin(NOBODY))
    with pytest.raises(RevertedError, match="NotOffered"):
        network.by(stranger, network.does.acceptAdmin())


def test_new_dispatcher_replaces_the_old_dispatcher(network: Network, stranger: str):
    receipt = network.by(network.admin, network.does.setDispatcher(stranger))
    task = network.create()

    assert receipt.only("DispatcherChanged") == {"dispatcher": stranger}
    with pytest.raises(RevertedError, match="NotDispatcher"):
        network.by(network.dispatcher, network.does.queueTask(task))
    network.by(stranger, network.does.queueTask(task))


def test_admin_changes_treasury(network: Network, stranger: str):
    receipt = network.by(network.admin, network.does.setTreasury(stranger))
    assert receipt.only("TreasuryChanged") == {"treasury": stranger}
    assert network.does.treasury().call() == stranger


def test_zero_address_dispatcher_or_treasury_is_rejected(network: Network):
    for call in (network.does.setDispatcher(NOBODY), network.does.setTreasury(NOBODY)):
        with pytest.raises(RevertedError, match="ZeroAddress"):
            network.by(network.admin, call)


@pytest.mark.parametrize(
    "wrong",
    [
        {"validation": 0},
        {"validation": MONTH + 1},
        {"group": 0},
        {"group": MONTH + 1},
        {"reveal": 59},
        {"window": MONTH + 1},
    ],
)
def test_out_of_range_settings_are_rejected(network: Network, wrong: dict[str, int]):
    with pytest.raises(RevertedError, match="BadSettings"):
        network.change(**wrong)


def test_new_settings_apply_immediately(network: Network):
    settings = (1, MONTH, MONTH, 60, MONTH, 0, 0)
    event = network.by(network.admin, network.does.setSettings(settings)).only("SettingsChanged")

    assert tuple(event["settings"].values()) == settings
    network.join(network.nodes[0], stake=1)
    network.by(network.nodes[0], network.does.quit())
    network.join(network.nodes[0], stake=1)


def test_oracle_must_be_a_contract_and_can_be_replaced(network: Network, stranger: str):
    first, second = (network.chain.deploy("testing/PlainOracle").address for _ in range(2))
    for nobody in (NOBODY, stranger):
        with pytest.raises(RevertedError, match="NoCode"):
            network.by(network.admin, network.does.setOracle(nobody))
    event = network.by(network.admin, network.does.setOracle(first)).only("OracleSet")
    network.join(network.nodes[0])
    network.by(network.admin, network.does.setOracle(second))

    assert event == {"oracle": first}
    assert network.does.oracle().call() == second


def test_score_source_must_be_a_contract_and_can_be_removed(network: Network, stranger: str):
    scores = network.chain.deploy("testing/PlainOracle").address
    with pytest.raises(RevertedError, match="NoCode"):
        network.by(network.admin, network.does.setScores(stranger))
    event = network.by(network.admin, network.does.setScores(scores)).only("ScoresSet")
    assert (event, network.does.scores().call()) == ({"scores": scores}, scores)
    event = network.by(network.admin, network.does.setScores(NOBODY)).only("ScoresSet")
    assert (event, network.does.scores().call()) == ({"scores": NOBODY}, NOBODY)


def test_plain_ether_transfer_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="unnamed 0x"):
        network.chain.transact(to=network.contract.address, data="0x", value=1)
