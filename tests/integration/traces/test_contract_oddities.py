"""Behaviour of the real contracts that the recorded chain does not show.

See docs/explanation/crynux.md#vsstask-contracts.
"""

import pytest
from eth_abi.abi import encode

from oracle.domain.events.network_events import DomainEvent, NodeJoined, TaskCreated
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.domain.scoring.node_scores import get_status
from oracle.domain.state import Membership, Node, PendingLeave
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.integration.traces.following import addresses, vss_reader
from tests.unit.chain.profiles.profile_files import BLOCK_HASH, TX_HASH

TASKS, NODES = (Address(addresses()["contracts"][name].lower()) for name in ("VSSTask", "Node"))
NODE = Address("0x" + "0d" * 20)
STARTED = "0x9bd27d3fcd577a82b21e57704c0d97fad539157111679935b4584f4e1abe37dc"
SCORED = "0x9aeb9b7daec64fcb1c8ca252f759fafa84039670d35f6265841a690646707725"
VALIDATED = "0xb86e6a82586576bc010ad08619492657c958d11f13926ea7cd171c66d20bad4d"
REFUNDED = "0x013766fc0b6dd5ec82a37d86477d3f43021d4e1bd973cf17d16ddf174c6e1a2a"
ABORTED = "0xe4161023d495c9541aba2a4e2be52416c6da996acb4a4481329f4ec310f33046"
KICKED = "0xb848d555de967481a57a6f519357b97fabdf06fbd2b63dece8f11876f3ab9323"


class Story:
    """Transactions of the contracts, one after the other; each may emit logs."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self.calls: list[Call] = []
        self._tx = 0

    def does(
        self, function: str, *logs: tuple[str, bytes], sender: str = NODE, to: Address = NODES
    ) -> None:
        self._tx += 1
        if function:
            self.calls.append(
                Call(9, BLOCK_HASH, 90, self._tx, TX_HASH, Address(sender), to, 0, function, True)
            )
        for topic, data in logs:
            address = NODES if topic == KICKED else TASKS
            place = len(self.logs)
            self.logs.append(
                Log(
                    9,
                    BLOCK_HASH,
                    90,
                    self._tx,
                    TX_HASH,
                    place,
                    address,
                    (topic,),
                    f"0x{data.hex()}",
                )
            )

    def folded(self) -> tuple[Node, list[str]]:
        """Return the node, and the rules that were broken."""
        events: list[DomainEvent] = vss_reader().decode_rows(self.logs, self.calls).events
        fold = Fold(CRYNUX)
        fold.fold_events(events)
        return fold.ledger.nodes[NODE], [a.rule for a in fold.drain_changes().anomalies]


JOIN = (
    "0x66d02792"
    + encode(
        ["string", "uint256", "uint256[3]", "bytes", "string[]"], ["RTX", 24, [2, 5, 0], b"", []]
    ).hex()
)
PAUSE, QUIT, RESUME = "0x8456cb59", "0xfc2b8cc3", "0x046f7da2"


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def starts(number: int) -> tuple[str, bytes]:
    return STARTED, encode(["bytes32", "address"], [key(number), NODE])


def scores(number: int) -> tuple[str, bytes]:
    return SCORED, encode(["bytes32", "address", "bytes"], [key(number), NODE, b""])


def aborts(number: int, last_status: int) -> tuple[str, bytes]:
    values = [key(number), NODE, last_status, 1]
    return ABORTED, encode(["bytes32", "address", "uint8", "uint8"], values)


def group(*numbers: int) -> str:
    kinds = [*["bytes32"] * 4, "bytes", "bytes"]
    return "0x127be3ca" + encode(kinds, [*map(key, numbers), key(99), b"", b""]).hex()


def twice_named() -> Story:
    """A member is named twice while tasks wait: surprise 19."""
    story = Story()
    story.does(JOIN, starts(1))
    story.does("", scores(1))
    story.does(
        group(2, 1, 1),
        (REFUNDED, key(1)),
        starts(3),
        (REFUNDED, key(1)),
        starts(4),
        sender="0x" + "0c" * 20,
        to=TASKS,
    )
    return story


def test_group_that_lists_a_task_twice_is_not_scored():
    node, broken = twice_named().folded()

    assert broken == ["group_names_task_twice", "after_terminal"]
    assert (node.pool, get_status(node)) == (b"", "busy")


@pytest.mark.parametrize(
    ("later", "membership", "status"),
    [
        ((PAUSE,), Membership.MEMBER, "busy"),
        ((PAUSE, RESUME), Membership.MEMBER, "busy"),
        ((QUIT, JOIN), Membership.MEMBER, "busy"),
    ],
)
def test_task_that_never_ends_causes_only_one_anomaly(
    later: tuple[str, ...], membership: Membership, status: str
):
    story = twice_named()
    story.does("", aborts(4, 1))
    for function in later:
        story.does(function)

    node, broken = story.folded()

    assert broken == ["group_names_task_twice", "after_terminal"]
    assert (node.membership, get_status(node)) == (membership, status)
    assert node.pending is (PendingLeave.PAUSE if later == (PAUSE,) else None)


@pytest.mark.parametrize("kickout_first", [True, False])
def test_kickout_log_is_accepted_before_or_after_task_end(*, kickout_first: bool):
    story = Story()
    story.does(JOIN, starts(1))
    story.does(QUIT)
    logs = [aborts(1, 2), (KICKED, encode(["address"], [NODE]))]
    story.does("", *(reversed(logs) if kickout_first else logs))

    node, broken = story.folded()

    assert (node.membership, node.pending, broken) == (Membership.KICKED_OUT, None, [])


def test_next_task_may_start_before_previous_task_ends():
    story = Story()
    story.does(JOIN, starts(1))
    story.does("", scores(1), (VALIDATED, key(1)))
    # Before 49c194a the logs of the freed node came first.
    story.does("", starts(2), aborts(1, 5))

    node, broken = story.folded()

    assert (get_status(node), node.running, broken) == ("busy", 1, [])


def test_reused_task_commitment_starts_no_second_task():
    story = Story()
    story.does(JOIN, starts(1))
    story.does("", aborts(1, 1))
    story.does("", starts(1), scores(1))

    node, broken = story.folded()

    assert broken == ["after_terminal", "after_terminal"]
    assert get_status(node) == "available"


@pytest.mark.parametrize("last_status", [7, 8, 9, 10, 11])
def test_abort_of_a_finished_task_is_listed_as_an_anomaly(last_status: int):
    story = Story()
    story.does(JOIN, starts(1))
    story.does("", scores(1), (VALIDATED, key(1)), (REFUNDED, key(1)))
    story.does("", aborts(1, last_status))

    node, broken = story.folded()

    assert vss_reader().decode_rows(story.logs, story.calls).dead_letters == []
    assert (get_status(node), node.since, broken) == ("available", 90, ["after_terminal"])


def test_calls_of_2024_contracts_are_decoded():
    joins = encode(["string", "uint256", "string", "bytes"], ["RTX", 24, "2.0.0", b""])
    kinds = ["uint8", "bytes32", "bytes32", "string", "uint256", "string", "uint256", "string"]
    asks = [0, key(1), key(7), "sdxl", 8, "RTX", 24, "2.0.0", 3]
    story = Story()
    story.does("0xa51d268e" + joins.hex())
    story.does("0xf651f6d1" + encode([*kinds, "uint256"], asks).hex(), to=TASKS)

    joined, created = vss_reader().decode_rows(story.logs, story.calls).events

    assert isinstance(joined, NodeJoined)
    assert (joined.node, joined.gpu_name, joined.gpu_vram, joined.version) == (
        NODE,
        "RTX",
        24,
        None,
    )
    assert isinstance(created, TaskCreated)
    assert (created.task, created.creator, created.models) == (
        f"0x{key(1).hex()}",
        NODE,
        ("sdxl",),
    )
    assert (created.min_vram, created.size, created.kind) == (8, 3, "sd")
