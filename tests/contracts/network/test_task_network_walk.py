"""Random walks of the reference network: no wei is lost, and every task ends."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from web3.contract import Contract

from tests.contracts.network_ledger import Ledger
from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import (
    ETHER,
    MIN_STAKE,
    NOTHING,
    SALT,
    TOLL,
    Network,
    Standing,
    Status,
    compute_answer,
    compute_commitment,
    encode_word,
)

pytestmark = [pytest.mark.evm, pytest.mark.slow]

# As groupOf returns them: the state of a contested group, and the state of its second group.
CONTESTED, PEER = 2, 14
WAITING = (Status.CREATED, Status.QUEUED)
ANSWERED = (Status.SUBMITTED, Status.ERROR_REPORTED)
EVERY_EVENT = {
    *("NodeJoined", "NodeStakeChanged", "NodePaused", "NodeResumed", "NodeQuit", "NodeSlashed"),
    *("NodeKickedOut", "TaskCreated", "TaskQueued", "TaskStarted", "TaskSubmitted"),
    *("TaskCommitted", "TaskRevealed", "TaskErrorRevealed", "NodeContested", "NodeCleared"),
    *("GroupRevalidates", "ProbeStarted", "StakeReturned", "AnswerShownLate"),
    *("TaskErrorReported", "TaskValidated", "GroupValidated", "TaskSucceeded", "TaskRefunded"),
    *("TaskInvalidated", "TaskAborted", "TaskTimedOut", "Credited", "Withdrawn"),
}


@pytest.fixture(scope="module")
def pair(fresh_chain: Chain) -> tuple[Network, Contract]:
    network = Network.deployed(fresh_chain)
    oracle = fresh_chain.deploy("testing/PlainOracle")
    network.by(network.admin, network.does.setOracle(oracle.address))
    # Nodes that left or were kicked out rejoin soon, so that some node can always act.
    network.change(rejoin=60, cool_down=60)
    return network, oracle


class Walk:
    """Random calls of all accounts; every rejected call must revert with a named error."""

    def __init__(self, network: Network, oracle: Contract, chance: Random) -> None:
        self.network, self.oracle, self.chance = network, oracle, chance
        self.does = network.does
        self.ledger = Ledger()
        self.event_counts = Counter[str]()
        self.created = self.groups = 0
        self.hidden: dict[bytes, bytes] = {}

    def step(self, sender: str, call: Any, value: int = 0) -> bool:
        try:
            receipt = self.network.by(sender, call, value)
        except RevertedError as refusal:
            if "unnamed" in refusal.error:
                raise
            return False
        self.ledger.read(receipt)
        self.event_counts.update(receipt.names)
        return True

    def draw_task(self, *statuses: Status) -> bytes:
        """Return a task with one of the statuses, or else the key of a missing task."""
        return self.chance.choice(self.ledger.at(*statuses) or [encode_word(404)])

    def draw_node(self) -> str:
        return self.chance.choice(self.network.nodes)

    def wait(self, seconds: int) -> None:
        self.network.chain.later(seconds)
        self.network.chain.mine()

    # --- Steps that advance tasks ---

    def join(self) -> None:
        self.wait(20)
        for node in self.network.nodes:
            stake = MIN_STAKE + self.chance.randrange(3)
            self.step(node, self.does.join("Any", 8, 1, 0, 0, []), stake)

    def create(self) -> None:
        """Create a single task, or a group, occasionally without its last member."""
        self.create_group(self.network.creator, self.chance.choice([1, 2, 3, 3]))

    def create_group(self, creator: str, size: int) -> bytes:
        self.groups += 1
        group = {"group": encode_word(self.groups), "group_size": size} if size > 1 else {}
        for _ in range(size - (self.chance.random() < 0.1)):
            self.created += 1
            order = self.network.order(id=encode_word(self.created), major=1, **group)
            fee = TOLL + self.chance.randrange(4) * ETHER
            self.step(creator, self.does.createTask(order), fee)
        return encode_word(self.groups)

    def start(self) -> None:
        busy = {self.ledger.runs[task] for task in self.ledger.at(Status.STARTED)}
        for node in sorted(set(self.ledger.members()) - busy):
            call = self.does.startTask(self.draw_task(*WAITING), node)
            self.step(self.network.dispatcher, call)

    def answer(self) -> None:
        for task in self.ledger.at(Status.STARTED):
            result = self.chance.choice([None, 0, 1, 1, 1, 1, 1, 2])
            node = self.ledger.runs[task]
            group = self.ledger.group_of[task]
            if result is None:
                continue
            if group == NOTHING:
                error = self.does.reportError(task)
                call = self.does.submitResult(task, encode_word(result)) if result else error
            else:
                self.hidden[task] = compute_answer(group, result)
                call = self.does.commitAnswer(
                    task, compute_commitment(task, node, self.hidden[task])
                )
            self.step(node, call)

    def reveal(self) -> None:
        for task in self.ledger.at(Status.COMMITTED):
            call = self.does.revealAnswer(task, self.hidden[task], SALT)
            if self.chance.random() < 0.85:
                self.step(self.ledger.runs[task], call)

    def validate_single_answers(self) -> None:
        for task in self.ledger.at(*ANSWERED):
            submitted = self.ledger.tasks[task] is Status.SUBMITTED
            call = self.does.validateTask(task) if submitted else self.does.acceptError(task)
            self.step(self.network.creator, call)

    def compare(self) -> None:
        answered = set(self.ledger.at(*ANSWERED))
        for creator, group, tasks in self.list_groups():
            if set(tasks) & answered:
                self.step(creator, self.does.validateGroup(group, tasks))

    def list_groups(self) -> list[tuple[str, bytes, list[bytes]]]:
        """Return creator, the creator's name, and tasks of each group."""
        creators = (self.network.creator, self.network.dispatcher)
        named = [(who, encode_word(n)) for who in creators for n in range(1, self.groups + 1)]
        keyed = [(*name, self.ledger.groups.get(self.network.key(*name), [])) for name in named]
        return [group for group in keyed if group[2]]

    def list_contested_groups(self) -> list[tuple[bytes, list[bytes]]]:
        keyed = [(self.ledger.group_of[tasks[0]], tasks) for _, _, tasks in self.list_groups()]
        return [
            (key, tasks) for key, tasks in keyed if self.does.groupOf(key).call()[0] == CONTESTED
        ]

    def revalidate(self) -> None:
        for key, tasks in self.list_contested_groups():
            if not any(self.does.groupOf(key).call()[PEER]):
                self.order_second(key, len(tasks))

    def order_second(self, contested: bytes, size: int) -> None:
        """Order a second group of free nodes, sometimes with nodes of the first group."""
        self.groups += 1
        dispatcher = self.network.dispatcher
        first = {*self.ledger.groups[contested]}
        busy = {self.ledger.runs[task] for task in self.ledger.at(Status.STARTED)}
        if self.chance.random() < 0.9:
            busy |= {self.ledger.runs[task] for task in first if task in self.ledger.runs}
        nodes = sorted(set(self.ledger.members()) - busy)[:size]
        order = self.network.order(
            id=encode_word(self.created + 1),
            major=1,
            group=encode_word(self.groups),
            group_size=size,
        )
        self.created += size
        fee = TOLL + self.chance.randrange(4)
        self.step(self.network.admin, self.does.fund(dispatcher), size * fee)
        if self.step(dispatcher, self.does.probe(order, fee, nodes, contested)):
            self.ledger.owed[dispatcher] -= size * fee

    def settle(self) -> None:
        for key, tasks in self.list_contested_groups():
            for result in (0, 1, 2):
                self.step(
                    self.network.admin, self.does.settleContest(key, tasks, encode_word(result))
                )

    def play_full_group(self) -> None:
        """Run a group to its end, and a second one if it is contested."""
        self.join()
        self.create_group(self.network.creator, 3)
        for again in (self.revalidate, self.settle):
            for act in (*[self.start] * 3, self.answer, self.reveal, self.compare, again):
                act()
            self.reveal_late()
            self.time_out_hidden_answers()

    def time_out_hidden_answers(self) -> None:
        """Let nodes not reveal in time; their group is compared without them."""
        if self.ledger.at(Status.COMMITTED):
            self.wait(121)
        for task in self.ledger.at(Status.COMMITTED):
            self.step(self.network.admin, self.does.timeOutTask(task))
        self.compare()

    # --- Steps that disturb tasks ---

    def change_membership(self) -> None:
        act = self.chance.choice(["pause", "resume", "quit", "addStake"])
        value = ETHER if act == "addStake" else 0
        paused = [n for n, stands in self.ledger.nodes.items() if stands is Standing.PAUSED]
        node = paused[0] if paused and act == "resume" else self.draw_node()
        self.step(node, getattr(self.does, act)(), value)

    def kick(self) -> None:
        at = self.network.contract.address
        self.step(
            self.network.admin, self.oracle.functions.kick(at, self.draw_node(), encode_word(1))
        )

    def queue(self) -> None:
        self.step(self.network.dispatcher, self.does.queueTask(self.draw_task(*WAITING)))

    def cancel_or_drop(self) -> None:
        """Cancel a single task, or its complete group."""
        for act, sender in (("drop", self.network.dispatcher), ("cancel", self.network.creator)):
            reason = [self.chance.choice([1, 4, 5])] if act == "drop" else []
            task = self.draw_task(*WAITING)
            self.step(sender, getattr(self.does, f"{act}Task")(task, *reason))
            fellows = self.ledger.groups.get(self.ledger.group_of.get(task, NOTHING), [])
            self.step(sender, getattr(self.does, f"{act}Group")(fellows, *reason))

    def reveal_late(self) -> None:
        """Let a node that did not reveal in time show its answer for the contest."""
        for task in self.ledger.at(Status.TIMED_OUT):
            if task in self.hidden and self.chance.random() < 0.5:
                call = self.does.revealAnswer(task, self.hidden[task], SALT)
                self.step(self.ledger.runs[task], call)

    def end_overdue_tasks(self) -> None:
        self.wait(self.chance.choice([1, 61, 301, 601, 3601]))
        self.step(self.network.admin, self.does.timeOutTask(self.draw_task(Status.STARTED)))
        self.step(self.network.admin, self.does.timeOutTask(self.draw_task(Status.COMMITTED)))
        self.step(self.network.admin, self.does.giveUpGroup(self.draw_task(Status.COMMITTED)))
        self.step(self.network.admin, self.does.endUnvalidated(self.draw_task(*ANSWERED)))
        self.step(self.network.admin, self.does.endUnvalidated(self.draw_task(Status.TIMED_OUT)))

    def withdraw(self) -> None:
        self.step(self.chance.choice(self.network.chain.accounts), self.does.withdraw())

    def call_as_any_account(self) -> None:
        """Call any function for any task from any account."""
        acts = ["queueTask", "cancelTask", "validateTask", "acceptError", "endUnvalidated"]
        act = getattr(self.does, self.chance.choice([*acts, "timeOutTask", "reportError"]))
        self.step(self.chance.choice(self.network.chain.accounts), act(self.draw_task(*Status)))

    # --- Invariants ---

    def list_steps(self) -> list[Callable[[], None]]:
        work = [self.join, self.create, self.start, self.start, self.answer, self.reveal]
        work += [self.compare]
        occasional = [
            self.play_full_group,
            self.play_full_group,
            self.validate_single_answers,
            self.change_membership,
            self.withdraw,
            self.call_as_any_account,
            self.queue,
            self.change_membership,
        ]
        rare = [
            self.kick,
            self.cancel_or_drop,
            self.end_overdue_tasks,
            self.settle,
            self.reveal_late,
        ]
        return [*work * 3, *occasional, *rare]

    def check_balance(self) -> None:
        assert self.network.balance() == self.ledger.balance()

    def check_storage_equals_ledger(self) -> None:
        """The ledger of the events equals the storage of the contract."""
        for task, status in self.ledger.tasks.items():
            assert self.network.status(task) is status
        for node, standing in self.ledger.nodes.items():
            assert self.network.standing(node) is standing
        for account, amount in self.ledger.owed.items():
            assert self.network.owed(account) == amount
        assert self.does.activeCount().call() == len(self.ledger.members())

    def end_all_tasks_and_memberships(self) -> None:
        """From the current state, waiting alone ends every task and releases every wei."""
        self.wait(3600)
        for task in self.ledger.at(Status.STARTED):
            assert self.step(self.network.admin, self.does.timeOutTask(task))
        self.wait(3601)
        self.end_waiting_tasks()
        self.wait(3601)
        for task in self.ledger.at(Status.COMMITTED):
            assert self.step(self.network.admin, self.does.timeOutTask(task))
        self.wait(3601)
        for task in self.ledger.at(*ANSWERED):
            assert self.step(self.network.admin, self.does.endUnvalidated(task))
        self.release_uncompared_groups()
        self.wait(86_401)
        self.reveal_late()
        for key, tasks in self.list_contested_groups():
            assert self.step(self.network.admin, self.does.settleContest(key, tasks, NOTHING))
        for node in self.ledger.members():
            assert self.network.node(node)["quits"] is False
            assert self.step(node, self.does.quit())
        assert self.ledger.stakes == {}
        for account, amount in list(self.ledger.owed.items()):
            assert not amount or self.step(account, self.does.withdraw())
        assert self.network.balance() == 0
        assert Standing.ACTIVE not in self.ledger.nodes.values()

    def release_uncompared_groups(self) -> None:
        """Release the stakes of groups without a revealed answer that were not compared."""
        for task in self.ledger.at(Status.TIMED_OUT):
            task_view = self.network.read_task(task)
            if task_view["held"] and self.does.groupOf(task_view["group"]).call()[0] != CONTESTED:
                assert self.step(self.network.admin, self.does.endUnvalidated(task))

    def end_waiting_tasks(self) -> None:
        """End waiting tasks: alone, with their group, or after the group was aborted."""
        for task in self.ledger.at(*WAITING):
            if self.ledger.tasks[task] not in WAITING:
                continue
            creator = self.network.read_task(task)["creator"]
            group = self.ledger.group_of[task]
            if self.step(creator, self.does.cancelTask(task)):
                continue
            if self.step(creator, self.does.cancelGroup(self.ledger.groups[group])):
                continue
            assert self.step(self.network.admin, self.does.giveUpGroup(task))
            assert self.step(creator, self.does.cancelTask(task))


def test_every_task_ends_and_balances_match_after_random_operations(
    pair: tuple[Network, Contract], fresh_chain: Chain, *, bounded: bool
):
    event_counts = Counter[str]()
    for seed in range(2 if bounded else 6):
        walk = Walk(*pair, Random(seed))  # noqa: S311 - a way to walk again, not a secret
        with fresh_chain.undone():
            for _ in range(80):
                walk.chance.choice(walk.list_steps())()
                walk.check_balance()
            walk.check_storage_equals_ledger()
            walk.end_all_tasks_and_memberships()
        event_counts += walk.event_counts
    assert bounded or set(event_counts) >= EVERY_EVENT
