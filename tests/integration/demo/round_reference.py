"""The scores of two rounds of submission, from a chain's raw logs alone, without `oracle`.

By the page of 2024: in each round earlier nodes get more (10, 5, 2), silent nodes get 0, and the
task score is the sum of both rounds. The network's events are those of TaskNetwork.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_utils.crypto import keccak

POINTS = (10, 5, 2)


def _topic(signature: str) -> str:
    return "0x" + keccak(text=signature).hex()


STARTED = _topic("TaskStarted(bytes32,address)")
COMMITTED = _topic("TaskCommitted(bytes32,address,bytes32)")
REVEALED = _topic("TaskRevealed(bytes32,address,bytes32)")
ERROR_REVEALED = _topic("TaskErrorRevealed(bytes32,address)")
COMPARED = _topic("GroupValidated(bytes32,bytes32[])")
SHARED = _topic("FeeShared(bytes32,address,uint256)")
PROBED = _topic("ProbeStarted(bytes32,address[])")


@dataclass
class Rounds:
    """The result of every group: scores by (node, task), and paid and due fees by task.

    `probes`: the number of started system tasks.
    """

    scores: dict[tuple[str, str], int] = field(default_factory=dict)
    shares: dict[str, int] = field(default_factory=dict)
    expected_shares: dict[str, int] = field(default_factory=dict)
    probes: int = 0


def rounds_of(logs: Sequence[Mapping[str, Any]]) -> Rounds:
    """Read the logs of a network in the order of the chain."""
    figures = Rounds()
    runs: dict[str, str] = {}
    rounds: dict[str, list[str]] = {"commit": [], "reveal": []}
    compared: list[list[str]] = []
    for log in logs:
        topic, key = (*log["topics"], "")[:2]
        if topic == STARTED:
            runs[key] = "0x" + log["topics"][2][-40:]
        elif topic == COMMITTED:
            rounds["commit"].append(key)
        elif topic in (REVEALED, ERROR_REVEALED):
            rounds["reveal"].append(key)
        elif topic == COMPARED:
            compared.append(_members(log["data"]))
            _score(figures, compared[-1], runs, rounds)
        elif topic == SHARED:
            figures.shares[key] = int(log["data"], 16)
        elif topic == PROBED:
            figures.probes += 1
    _share(figures, compared)
    return figures


def _members(data: str) -> list[str]:
    abi_words = [data[2 + at : 66 + at] for at in range(0, len(data) - 2, 64)]
    return ["0x" + abi_word for abi_word in abi_words[2 : 2 + int(abi_words[1], 16)]]


def _score(
    figures: Rounds, members: list[str], runs: Mapping[str, str], rounds: Mapping[str, list[str]]
) -> None:
    orders = [[key for key in rounds[name] if key in members] for name in ("commit", "reveal")]
    if not orders[1]:
        return
    totals: dict[str, int] = defaultdict(int)
    for order in orders:
        for place, key in enumerate(order):
            totals[key] += POINTS[min(place, 2)]
    for key in members:
        if key in runs:
            figures.scores[runs[key], key] = totals[key]


def _share(figures: Rounds, compared: list[list[str]]) -> None:
    """Split each group's payment by the scores of the paid nodes;
    the last one gets the remainder.
    """
    by_task = {key: score for (_, key), score in figures.scores.items()}
    for members in compared:
        paid = [key for key in members if key in figures.shares]
        fee = sum(figures.shares[key] for key in paid)
        total = sum(by_task[key] for key in paid)
        for key in paid[:-1]:
            figures.expected_shares[key] = fee * by_task[key] // total
        if paid:
            earlier_shares = sum(figures.expected_shares[key] for key in paid[:-1])
            figures.expected_shares[paid[-1]] = fee - earlier_shares
