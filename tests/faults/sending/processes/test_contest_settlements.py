"""`run --dispatch` with lying nodes: second groups, settlements and slashes on a real chain.

The daemon is a separate process, which is stopped and killed between the steps.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from web3 import Web3

from oracle.signing.keystore import create_keystore
from tests.support.cli.daemon import Daemon, run_daemon
from tests.support.cli.local_network import Settings, write_config
from tests.support.evm.anvil import FREE_BY_HAND, run_anvil
from tests.support.evm.chain import Chain
from tests.support.evm.contests import WINDOW
from tests.support.evm.network import (
    ETHER,
    FEE,
    MIN_STAKE,
    TOLL,
    Network,
    Standing,
    Status,
    compute_answer,
    encode_word,
)
from tests.support.harness import CHAIN_ID, QUICK

pytestmark = [pytest.mark.evm, pytest.mark.slow]

NODES = 12
GARBAGE = 666
# Blocks in which the daemon does whatever is due.
MAX_BLOCKS = 120


class Work(NamedTuple):
    """A group of the creator: its key, its tasks, and the result of honest nodes."""

    key: bytes
    tasks: list[bytes]
    result: int


@pytest.fixture
def network() -> Iterator[Network]:
    """Yield a separate chain: the daemon is a process, so no other test may undo its blocks."""
    with run_anvil(*FREE_BY_HAND, "--slots-in-an-epoch", "1", "--accounts", "20") as url:
        chain = Chain(url)
        network = Network.deployed(chain)
        for node in network.nodes[:NODES]:
            network.join(node)
        yield network
        chain.close()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def config(network: Network, results: Path, tmp_path: Path) -> Path:
    files = (tmp_path / "dispatcher.json", tmp_path / "dispatcher.password")
    sender = Web3.to_checksum_address(create_keystore(*files, iterations=QUICK))
    network.by(network.admin, network.does.setDispatcher(sender))
    network.by(network.admin, network.does.fund(sender), value=ETHER)
    network.chain.rpc("anvil_setBalance", sender, hex(ETHER))
    network.dispatcher = sender
    settings: Settings = {
        "database": {"url": f"sqlite:///{tmp_path / 'oracle.sqlite'}"},
        "chain": {
            "id": CHAIN_ID,
            "endpoints": [network.chain.url],
            "finality_depth": 2,
            "poll_seconds": 0.05,
        },
        "network": {"contracts": {"TaskNetwork": network.contract.address}},
        "dispatch": {
            "start_block": 0,
            "queue_alpha": 2,
            "fixed_seconds": {"sd": 5, "llm": 2, "sd_ft": 60},
            "unit_seconds": {"sd": 1, "llm": 0.05, "sd_ft": 1},
            "results_folder": str(results),
        },
        "keys": {
            "dispatcher_keystore": str(files[0]),
            "dispatcher_password_file": str(files[1]),
        },
        "web": {"port": 0},
        "log": {"format": "json"},
    }
    return write_config(settings, tmp_path / "config.toml")


def mine_until(network: Network, running: Daemon, has_happened: Callable[[], bool]) -> None:
    """Mine blocks, each of which the daemon folds, until a condition is true."""
    for _ in range(MAX_BLOCKS):
        if has_happened():
            return
        network.chain.later(1)
        network.chain.mine()
        running.wait_for_block(int(network.chain.rpc("eth_blockNumber"), 16))
    raise AssertionError(running.log.read_text("utf-8")[-4000:])


def answer_group(network: Network, work: Work, lies: set[int]) -> None:
    """Let a group's nodes commit and reveal; the members at the positions `lies` give one lie."""
    for place, task in enumerate(work.tasks):
        result = GARBAGE if place in lies else work.result
        node = network.read_task(task)["node"]
        network.commit(task, node, compute_answer(work.key, result))
    for task in work.tasks:
        network.reveal(task)


def create_contest(network: Network, running: Daemon, number: int) -> Work:
    """Let the daemon start a group whose first node lies, and have the group compared."""
    creator = network.creator
    name = encode_word(number)
    order: dict[str, Any] = {"creator": creator, "group": name, "group_size": 3}
    tasks = [network.create(**order) for _ in range(3)]
    work = Work(network.key(creator, name), tasks, number)
    mine_until(network, running, lambda: have_all_status(network, tasks, Status.STARTED))
    answer_group(network, work, {0})
    network.by(creator, network.does.validateGroup(name, tasks))
    return work


def have_all_status(network: Network, tasks: list[bytes], status: Status) -> bool:
    return {network.status(task) for task in tasks} == {status}


def find_second_group(network: Network, work: Work) -> Work | None:
    """Return the second group of a contested group once the daemon has ordered it, else None."""
    events = network.contract.events
    revalidations = events.GroupRevalidates().get_logs(from_block=0)
    seconds = [log["args"]["second"] for log in revalidations if log["args"]["group"] == work.key]
    if not seconds:
        return None
    (key,) = seconds
    created = events.TaskCreated().get_logs(from_block=0, argument_filters={"group": key})
    return Work(key, [log["args"]["task"] for log in created], work.result)


def list_work_nodes(network: Network, work: Work) -> list[str]:
    return [str(network.read_task(task)["node"]) for task in work.tasks]


def list_work_standings(network: Network, work: Work) -> list[Standing]:
    return [network.standing(node) for node in list_work_nodes(network, work)]


def list_settlement_statuses(network: Network) -> list[int]:
    """Return the status of every settleContest transaction on the chain, by any sender."""
    selector = network.does.settleContest(
        encode_word(0), [], encode_word(0)
    )._encode_transaction_data()[:10]
    chain = network.chain
    statuses = []
    for number in range(int(chain.rpc("eth_blockNumber"), 16) + 1):
        for sent in chain.rpc("eth_getBlockByNumber", hex(number), True)["transactions"]:
            if sent["input"].startswith(selector):
                receipt = chain.rpc("eth_getTransactionReceipt", sent["hash"])
                statuses.append(int(receipt["status"], 16))
    return statuses


def write_result(results: Path, task: bytes, result: int) -> None:
    (results / f"0x{task.hex()}").write_text(f"0x{encode_word(result).hex()}\n")


def test_contests_are_settled_in_their_window_despite_restarts(
    network: Network, config: Path, results: Path
):
    with run_daemon(config, "--dispatch") as running:
        contests = [create_contest(network, running, number) for number in (7, 9)]
        mine_until(
            network,
            running,
            lambda: all(find_second_group(network, work) is not None for work in contests),
        )
        assert running.stop()[0] == 0
    seconds = [second for work in contests if (second := find_second_group(network, work))]
    assert not {*list_work_nodes(network, contests[0])} & {*list_work_nodes(network, seconds[0])}
    assert not {*list_work_nodes(network, contests[1])} & {*list_work_nodes(network, seconds[1])}

    for second in seconds:
        answer_group(network, second, set())
    # The storage also delivers the liars' answers; they open no verdict.
    for work in contests:
        write_result(results, work.tasks[0], GARBAGE)
    write_result(results, seconds[0].tasks[2], contests[0].result)
    honest = [node for work in contests for node in list_work_nodes(network, work)[1:]]
    with run_daemon(config, "--dispatch") as running:
        mine_until(network, running, lambda: len(list_settlement_statuses(network)) == 1)
        for _ in range(6):
            network.chain.mine()
        assert list_work_standings(network, contests[0])[0] is Standing.SLASHED
        assert set(list_work_standings(network, contests[1])) == {Standing.ACTIVE}
        running.process.kill()

    write_result(results, seconds[1].tasks[0], contests[1].result)
    with run_daemon(config, "--dispatch") as running:
        mine_until(network, running, lambda: len(list_settlement_statuses(network)) == 2)
        for _ in range(6):
            network.chain.mine()
        running.wait_for_block(int(network.chain.rpc("eth_blockNumber"), 16))
        assert running.stop()[0] == 0

    for work in contests:
        assert list_work_standings(network, work) == [
            Standing.SLASHED,
            Standing.ACTIVE,
            Standing.ACTIVE,
        ]
        assert network.node(list_work_nodes(network, work)[0])["stake"] == 0
    assert list_settlement_statuses(network) == [1, 1]
    # Honest members are paid for their work, and their stakes answer for nothing any more.
    assert {network.node(node)["open"] for node in honest} == {0}
    assert sum(network.owed(node) for node in {*honest}) >= 2 * FEE
    assert network.owed(network.treasury) == 2 * (MIN_STAKE - TOLL)
    # All within the window: after its end no node is slashed.
    first, last = (
        int(network.chain.rpc("eth_getBlockByNumber", block, False)["timestamp"], 16)
        for block in ("0x1", "latest")
    )
    assert last - first < WINDOW
