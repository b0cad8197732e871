"""The reference network on any way through it: no wei is lost, and no task hangs."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override
from web3.contract import Contract

from tests.contracts.network_ledger import Ledger
from tests.evm.chain import Chain, RevertedError
from tests.evm.network import ETHER, MIN_STAKE, Network, Standing, Status, word

pytestmark = pytest.mark.evm


@pytest.fixture(scope="module")
def pair(fresh_chain: Chain) -> tuple[Network, Contract]:
    network = Network.deployed(fresh_chain)
    oracle = fresh_chain.deploy("testing/PlainOracle")
    network.by(network.admin, network.does.setOracle(oracle.address))
    return network, oracle


class Walk(RuleBasedStateMachine):
    """Anybody does anything in any order; what the contract refuses must have a name."""

    def __init__(self, network: Network, oracle: Contract) -> None:
        super().__init__()
        self.network, self.oracle = network, oracle
        self.does, self.ledger, self.created = network.does, Ledger(), 0
        self.ledger.read(network.by(network.admin, self.does.setTreasury(network.treasury)))
        self.before = network.chain.rpc("evm_snapshot")

    def step(self, sender: str, call: Any, value: int = 0) -> bool:
        try:
            receipt = self.network.by(sender, call, value)
        except RevertedError as refusal:
            if "unnamed" in refusal.error:
                raise
            return False
        self.ledger.read(receipt)
        return True

    def pick(self, which: int, *statuses: Status) -> bytes:
        """Some task that stands there, else a task that nobody created."""
        tasks = self.ledger.at(*statuses)
        return tasks[which % len(tasks)] if tasks else word(404)

    which = st.integers(0, 7)
    node = st.integers(0, 4)

    @rule(node=node, extra=st.integers(0, 2))
    def join(self, node: int, extra: int) -> None:
        call = self.does.join("Any", 8, 1, 0, 0, [])
        self.step(self.network.nodes[node], call, MIN_STAKE + extra)

    @rule(node=node, act=st.sampled_from(["pause", "resume", "quit", "quit"]))
    def change(self, node: int, act: str) -> None:
        self.step(self.network.nodes[node], getattr(self.does, act)())

    @rule(node=node)
    def add_stake(self, node: int) -> None:
        self.step(self.network.nodes[node], self.does.addStake(), ETHER)

    @rule(group=st.integers(0, 2), fee=st.integers(0, 3))
    def create(self, group: int, fee: int) -> None:
        self.created += 1
        size = (0, 2, 3)[group]
        wanted = {"group": word(group), "group_size": size, "major": 1, "id": word(self.created)}
        order = self.network.order(**wanted)
        self.step(self.network.creator, self.does.createTask(order), fee * ETHER)

    @rule(which=which)
    def queue(self, which: int) -> None:
        task = self.pick(which, Status.CREATED)
        self.step(self.network.dispatcher, self.does.queueTask(task))

    @rule(which=which, node=node)
    def start(self, which: int, node: int) -> None:
        task = self.pick(which, Status.CREATED, Status.QUEUED)
        call = self.does.startTask(task, self.network.nodes[node])
        self.step(self.network.dispatcher, call)

    @rule(which=which, result=st.integers(0, 2))
    def answer(self, which: int, result: int) -> None:
        task = self.pick(which, Status.STARTED)
        error = self.does.reportError(task)
        call = self.does.submitResult(task, word(result)) if result else error
        self.step(self.ledger.runs.get(task, self.network.nodes[0]), call)

    @rule(which=which, act=st.sampled_from(["cancelTask", "validateTask", "acceptError"]))
    def judge(self, which: int, act: str) -> None:
        statuses = {"validateTask": Status.SUBMITTED, "acceptError": Status.ERROR_REPORTED}
        task = self.pick(which, statuses.get(act, Status.CREATED))
        self.step(self.network.creator, getattr(self.does, act)(task))

    @rule(group=st.integers(1, 2))
    def compare(self, group: int) -> None:
        key = self.does.keyOf(self.network.creator, word(group)).call()
        call = self.does.validateGroup(word(group), self.ledger.groups[key])
        self.step(self.network.creator, call)

    @rule(which=which, reason=st.sampled_from([1, 4, 5]))
    def drop(self, which: int, reason: int) -> None:
        task = self.pick(which, Status.QUEUED)
        self.step(self.network.dispatcher, self.does.dropTask(task, reason))

    @rule(seconds=st.sampled_from([1, 301, 1801, 3601]))
    def wait(self, seconds: int) -> None:
        self.network.chain.later(seconds)
        self.network.chain.mine()

    @rule(which=which)
    def time_out(self, which: int) -> None:
        self.step(self.network.admin, self.does.timeOutTask(self.pick(which, Status.STARTED)))

    @rule(which=which)
    def end_unvalidated(self, which: int) -> None:
        task = self.pick(which, Status.SUBMITTED, Status.ERROR_REPORTED)
        self.step(self.network.admin, self.does.endUnvalidated(task))

    @rule(node=node)
    def kick(self, node: int) -> None:
        at, whom = self.network.contract.address, self.network.nodes[node]
        self.step(self.network.admin, self.oracle.functions.kick(at, whom, word(1)))

    @rule(account=st.integers(2, 8))
    def withdraw(self, account: int) -> None:
        self.step(self.network.chain.accounts[account], self.does.withdraw())

    @invariant()
    def every_wei_is_somebody_s(self) -> None:
        assert self.network.balance() == self.ledger.balance()

    @override
    def teardown(self) -> None:
        try:
            self.same_as_the_books()
            self.all_go_home()
        finally:
            drop, back = ("anvil_dropAllTransactions",), ("evm_revert", self.before)
            self.network.chain.rpcs(drop, back)

    def same_as_the_books(self) -> None:
        for task, status in self.ledger.tasks.items():
            assert self.network.status(task) is status
        for node, standing in self.ledger.nodes.items():
            assert self.network.standing(node) is standing
        for account, amount in self.ledger.owed.items():
            assert self.network.owed(account) == amount
        assert self.does.activeCount().call() == len(self.ledger.stakes)

    def all_go_home(self) -> None:
        """From wherever we are, waiting alone ends every task and frees every wei."""
        self.wait(3 * 3600)
        for task in self.ledger.at(Status.STARTED):
            assert self.step(self.network.admin, self.does.timeOutTask(task))
        for task in self.ledger.at(Status.CREATED, Status.QUEUED):
            assert self.step(self.network.creator, self.does.cancelTask(task))
        self.wait(3 * 3600)
        for task in self.ledger.at(Status.SUBMITTED, Status.ERROR_REPORTED):
            assert self.step(self.network.admin, self.does.endUnvalidated(task))
        for node in list(self.ledger.stakes):
            assert self.step(node, self.does.quit())
        for account, amount in list(self.ledger.owed.items()):
            assert not amount or self.step(account, self.does.withdraw())
        assert self.network.balance() == 0
        assert Standing.ACTIVE not in self.ledger.nodes.values()


def test_no_wei_is_lost_and_no_task_hangs_on_any_way(pair: tuple[Network, Contract]):
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    limits = settings(
        max_examples=25,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=slow,
    )

    class ThisWalk(Walk):
        def __init__(self) -> None:
            super().__init__(*pair)

    run_state_machine_as_test(ThisWalk, settings=limits)
