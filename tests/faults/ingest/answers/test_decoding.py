"""Cases 64 to 66: events are decoded as intended, or stored as dead letters with a reason."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from oracle.chain.decode.abi import AbiSignature, parse_signature
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Membership, Node, Task
from tests.integration.traces.following import Follower, daemon

CONTRACT = "0x" + "4e" * 20
SOMEBODY = "0x" + "5e" * 20
TASK = TaskKey("0x" + "ab" * 32)
MAX_UINT256 = 2**256 - 1

# Events with the same first topic differ by the number of topics, (1) and (2), and by data length.
PLAIN = "event NodeLeft(address node)"
INDEXED = "event NodeLeft(address indexed node)"
WORDY = "event NodeHalted(address indexed node, string why)"
TERSE = "event NodeHalted(address node, string indexed why)"
JOINED = "event NodeJoined(address node, string gpu, uint256 stake)"
CREATED = (
    "event TaskCreated(bytes32 indexed task, uint256 fee, int256 delta, bytes blob, string gpu, "
    "uint256 vram)"
)

PROFILE = f"""
[contracts.Network]
abi = ["{PLAIN}", "{INDEXED}", "{WORDY}", "{TERSE}", "{JOINED}", "{CREATED}"]

[contracts.Network.events.NodeLeft]
says = "node_quit"
node = "node"

[contracts.Network.events.NodeHalted]
says = "node_paused"
node = "node"

[contracts.Network.events.NodeJoined]
says = "node_joined"
node = "node"
gpu_name = "gpu"
stake = "stake"

[contracts.Network.events.TaskCreated]
says = "task_created"
task = "task"
fee = "fee"
required_gpu = "gpu"
min_vram = "vram"
"""


def make_node_address(number: int) -> Address:
    return Address(f"0x{number:040x}")


def parse_event_signature(text: str) -> AbiSignature:
    return parse_signature(text)[1]


def encode_log(text: str, *values: Any) -> FakeLog:
    """Return the log of an event with this signature; an indexed string is replaced by a hash."""
    event = parse_event_signature(text)
    topics = [event.digest]
    plain = []
    for parameter, value in zip(event.inputs, values, strict=True):
        if parameter.indexed:
            kind = "bytes32" if parameter.abi_type == "string" else parameter.abi_type
            topics.append("0x" + encode([kind], [value]).hex())
        else:
            plain.append((parameter.abi_type, value))
    data = encode([kind for kind, _ in plain], [value for _, value in plain])
    return FakeLog(CONTRACT, tuple(topics), "0x" + data.hex())


def build_created_log(**changed: Any) -> FakeLog:
    values = {"fee": 1, "delta": 0, "blob": b"", "gpu": "RTX", "vram": 8, **changed}
    return encode_log(CREATED, bytes.fromhex(TASK[2:]), *values.values())


Heard = Callable[..., Follower]


@pytest.fixture
def index_blocks(tmp_path: Path, request: pytest.FixtureRequest, sqlite_url: str) -> Heard:
    """Return a function that mines blocks with these logs, and indexes them by the profile."""
    profile = tmp_path / "network.toml"
    profile.write_text(PROFILE)
    reader = EventReader.from_profile(str(profile), {"Network": CONTRACT}, None)

    def index(*blocks: Sequence[Sequence[FakeLog]]) -> Follower:
        tree = BlockTree()
        for txs in blocks:
            tree.mine([Tx(SOMEBODY, CONTRACT, logs=tuple(logs)) for logs in txs])
        opened = daemon(sqlite_url, Provider(tree), reader)
        follower = opened.__enter__()
        request.addfinalizer(lambda: opened.__exit__(None, None, None))
        follower.index()
        return follower

    return index


def get_node(follower: Follower, number: int) -> Node:
    return follower.nodes()[make_node_address(number)]


def get_task(follower: Follower) -> Task:
    with follower.store.read_transaction() as uow:
        return uow.tasks.get_many([TASK])[TASK]


def list_dead_letters(follower: Follower) -> list[tuple[str, str]]:
    with follower.store.read_transaction() as uow:
        return [(letter.name, letter.error) for letter in uow.dead_letters.list_open(0, 99)]


def test_case_64_event_variant_is_decoded_by_topic_count(
    index_blocks: Heard,
):
    joins = [encode_log(JOINED, make_node_address(n), "RTX", 1) for n in (1, 2)]

    follower = index_blocks(
        [joins],
        [[encode_log(PLAIN, make_node_address(1))], [encode_log(INDEXED, make_node_address(2))]],
    )

    assert [get_node(follower, n).membership for n in (1, 2)] == [Membership.QUIT] * 2
    assert list_dead_letters(follower) == []


def test_case_64_event_variant_is_decoded_by_data_length(index_blocks: Heard):
    joins = [encode_log(JOINED, make_node_address(n), "RTX", 1) for n in (1, 2)]
    halts = [
        encode_log(WORDY, make_node_address(1), "too hot"),
        encode_log(TERSE, make_node_address(2), b"\1" * 32),
    ]

    follower = index_blocks([joins], [[halt] for halt in halts])

    assert [get_node(follower, n).paused for n in (1, 2)] == [True, True]
    assert list_dead_letters(follower) == []


def test_case_64_undeclared_event_shape_becomes_a_dead_letter(index_blocks: Heard):
    topic = parse_event_signature(PLAIN).digest
    odd = FakeLog(CONTRACT, (topic, topic, topic), "0x")

    follower = index_blocks(
        [[encode_log(JOINED, make_node_address(1), "RTX", 1)]],
        [[odd], [encode_log(PLAIN, make_node_address(1))]],
    )

    assert get_node(follower, 1).membership is Membership.QUIT
    assert [name for name, _ in list_dead_letters(follower)] == ["NodeLeft"]


@pytest.mark.parametrize("delta", [-(2**255), -1, 2**255 - 1])
@pytest.mark.parametrize("blob", [b"", b"\xff" * 100_000], ids=["empty", "100 kB"])
def test_case_65_extreme_values_are_stored_exactly(index_blocks: Heard, delta: int, blob: bytes):
    log = build_created_log(fee=MAX_UINT256, delta=delta, blob=blob, vram=MAX_UINT256)

    follower = index_blocks([[log]])

    stored_task = get_task(follower)
    assert (stored_task.fee, stored_task.min_vram) == (MAX_UINT256, 2**32 - 1)
    with follower.store.read_transaction() as uow:
        (raw,) = uow.logs.iterate_between(0, 9)
    assert (raw.topics, raw.data) == (log.topics, log.data)
    assert list_dead_letters(follower) == []


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\0b", "\ufffd0x".encode(), b"\xc3\x28"])
def test_case_65_invalid_utf8_text_is_marked_and_keeps_its_bytes(index_blocks: Heard, name: bytes):
    text = build_created_log(gpu="")
    head = text.data[: -64 * 1]
    tail = f"{len(name):064x}" + name.hex().ljust(64, "0")

    follower = index_blocks([[FakeLog(text.address, text.topics, head + tail)]])

    marked = get_task(follower).required_gpu
    assert marked is not None
    assert marked.startswith("\ufffd0x")
    assert bytes.fromhex(marked.removeprefix("\ufffd0x")) == name


def test_case_65_address_with_dirty_high_bytes_becomes_a_dead_letter(index_blocks: Heard):
    clean = encode_log(JOINED, make_node_address(1), "RTX", 1)
    dirty = FakeLog(clean.address, clean.topics, "0x01" + clean.data[4:])
    topic = FakeLog(
        CONTRACT,
        (parse_event_signature(INDEXED).digest, "0x01" + make_node_address(2)[2:].rjust(62, "0")),
    )

    follower = index_blocks(
        [[dirty], [topic], [encode_log(JOINED, make_node_address(3), "RTX", 1)]]
    )

    assert follower.nodes().keys() == {make_node_address(3)}
    assert list_dead_letters(follower) == [
        ("NodeJoined", "unused bits of the data are set"),
        ("NodeLeft", "an address topic is not padded with zeros"),
    ]
    with follower.store.read_transaction() as uow:
        assert next(uow.logs.iterate_between(0, 9)).data == dirty.data


def test_case_66_both_logs_of_a_transaction_are_counted(index_blocks: Heard):
    twice = [
        encode_log(JOINED, make_node_address(1), "RTX", 1),
        encode_log(JOINED, make_node_address(2), "RTX", 1),
    ]
    halts = [
        encode_log(WORDY, make_node_address(1), "x"),
        encode_log(WORDY, make_node_address(2), "x"),
    ]

    follower = index_blocks([twice], [halts])

    assert [get_node(follower, n).paused for n in (1, 2)] == [True, True]
    with follower.store.read_transaction() as uow:
        assert len(list(uow.logs.iterate_between(0, 9))) == 4
