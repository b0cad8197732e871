"""Random receipts, candidates and stakes: most are usual, some extreme or malformed."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from oracle.chain.proofs.receipts import ProvenReceipt, compute_bloom, format_bloom
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from oracle.domain.roots.node_leaves import LeafRow
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, create_node
from oracle.rpc.responses import LogResponse
from oracle.systems.crynux.candidate_columns import IndexedCandidate
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY

NOW = 1_700_000_000
# Malformed values that an endpoint may return.
STRANGE = ("", "0", "0x", "0X1", "0x0", "0x1", "0x01", "0x1_0", "0x\u00e9", "-0x1", "0x7f", "0x80")
# Sizes on both sides of the limits at which RLP and the trie change their form.
SIZES = (0, 1, 2, 31, 32, 33, 54, 55, 56, 57, 255, 256, 257, 700)
# The logs of these contracts and events are wanted.
ADDRESSES = ("0x" + 40 * "a", "0x" + 20 * "b0")
TOPICS = tuple("0x" + 32 * f"c{number}" for number in range(3))
COUNTS = (*range(18), 126, 127, 128, 129, 255, 256, 257)


def make_random_hex(chance: Random, size: int) -> str:
    return "0x" + chance.randbytes(size).hex()


def make_random_log(chance: Random) -> LogResponse:
    address = chance.choice((*ADDRESSES, make_random_hex(chance, 20)))
    topics = [make_random_hex(chance, 32) for _ in range(chance.randrange(5))]
    topics[:1] = [chance.choice((*TOPICS, topic)) for topic in topics[:1]]
    data = make_random_hex(chance, chance.choice(SIZES))
    if chance.random() < 0.5:
        data = data[:-40] + 40 * "0" if len(data) > 66 else "0x" + data[2:].rjust(64, "0")
    hashes = make_random_hex(chance, 32), make_random_hex(chance, 32)
    return LogResponse(address, tuple(topics), data, "0x1", *hashes, "0x0", "0x0")


def make_random_receipt(chance: Random) -> ProvenReceipt:
    logs = [make_random_log(chance) for _ in range(chance.choice((0, 0, 1, 1, 2, 5)))]
    gas = chance.choice((0, 1, 127, 128, 255, 256, 21_000, 2**64, 2**256 - 1))
    return ProvenReceipt(
        make_random_hex(chance, 32),
        "0x0",
        hex(gas),
        logs,
        type=hex(chance.randrange(5)),
        status=hex(chance.randrange(2)),
        logs_bloom=format_bloom(compute_bloom(logs)),
    )


def make_random_block(chance: Random) -> list[ProvenReceipt]:
    return [make_random_receipt(chance) for _ in range(chance.choice(COUNTS))]


# Fields that an endpoint may omit.
OPTIONAL = {"status", "logs_bloom", "root", "contract_address"}
FIELDS = (
    *("type", "status", "cumulative_gas_used", "logs_bloom", "root"),
    *("transaction_hash", "transaction_index", "contract_address"),
)
OF_LOGS = (
    *("address", "topics", "data", "block_number", "block_hash"),
    *("transaction_hash", "transaction_index", "log_index"),
)


def change_one_text(chance: Random, block: list[ProvenReceipt]) -> None:
    """Change one text in the receipts of a block: one character, or all of it."""
    receipt = chance.choice(block)
    logs: list[msgspec.Struct] = [*receipt.logs]
    target = chance.choice([receipt, *logs])
    field = chance.choice(FIELDS if target is receipt else OF_LOGS)
    value = getattr(target, field)
    if isinstance(value, tuple):
        setattr(target, field, tuple(_change_text(chance, topic) for topic in value))
    elif field in OPTIONAL and chance.random() < 0.2:
        setattr(target, field, None)
    else:
        setattr(target, field, _change_text(chance, value))


def _change_text(chance: Random, value: str | None) -> str:
    if not value or chance.random() < 0.3:
        return chance.choice((*STRANGE, make_random_hex(chance, chance.choice(SIZES))))
    place = chance.randrange(len(value))
    put = chance.choice(("", "0", "1", "f", "F", "x", "X", "_", " ", "g", "\u00e9", "00"))
    return value[:place] + put + value[place + 1 :]


def make_random_candidate(chance: Random) -> IndexedCandidate:
    return IndexedCandidate(
        is_free=chance.random() < 0.7,
        stake=make_random_stake(chance),
        boost=chance.choice((UNIT, 2 * UNIT, 9 * UNIT, chance.randrange(UNIT, 9 * UNIT + 1))),
        long_term=chance.choice((0, 1, UNIT, chance.randrange(UNIT + 1))),
        base=chance.choice((0, 1, UNIT - 1, UNIT, chance.randrange(UNIT + 1))),
        since=NOW - chance.choice((-5, 0, 1, 2**21 - 1, 2**21, 2**40, chance.randrange(20_000))),
        exclusion_threshold=chance.choice((0, UNIT // 10, UNIT, chance.randrange(UNIT + 1))),
    )


def make_random_stake(chance: Random) -> int:
    """Return a stake in wei, occasionally with more bits than a native number has."""
    size = chance.choice((0, 1, 10, 63, 64, 65, 80, 90, 127, 128, 128, 90, 90))
    return chance.getrandbits(size) if size else 0


def make_random_rules(chance: Random) -> Rules:
    """Return rules that compare no nodes, with one or two thresholds of exclusion."""
    lines = sorted(chance.choice((1, UNIT, chance.randrange(1, UNIT))) for _ in range(2))
    return replace(
        chance.choice((CRYNUX, RELAY)),
        q_max=chance.choice((10, 10, 255)),
        zero_mean_is_new=chance.random() < 0.5,
        new_node_long_term=chance.choice((0, UNIT, chance.randrange(UNIT))),
        exclude_enter=chance.choice(lines),
        exclude_exit=lines[1],
        tau_seconds=chance.choice((1, 600, 10**6)),
    )


def make_random_node(chance: Random) -> Node:
    node = create_node(
        Address(make_random_hex(chance, 20)),
        chance.choice((0, 2**32 - 1, chance.getrandbits(32))),
        NOW - chance.choice((-5, 0, 1, 2**21 - 1, 2**21, 2**40, chance.randrange(20_000))),
        chance.randrange(2),
    )
    node.membership = chance.choice((Membership.MEMBER, Membership.MEMBER, *Membership))
    node.paused = chance.random() < 0.1
    node.excluded = chance.random() < 0.3
    node.base = chance.choice((0, 1, UNIT - 1, UNIT, chance.randrange(UNIT + 1)))
    size = chance.choice((0, 1, 50, 134, 135, 136, 200, chance.randrange(20)))
    node.pool = bytes(chance.choice((0, 2, 5, 10)) for _ in range(size))
    node.pool_sum = sum(node.pool)
    node.prior = chance.choice((None, 0, UNIT, chance.randrange(UNIT)))
    node.last_scored_at = chance.choice((None, 0, NOW, 2**40 - 1))
    if chance.random() < 0.1:
        node.kickout_due_time = NOW - 60
    return node


# Values of a node on both sides of each limit of the native code, and of the leaf's fields.
_EXTREMES: dict[str, tuple[object, ...]] = {
    "address": (Address("0x" + 40 * "0"), Address("0x" + 40 * "f")),
    "seat": (-1, 0, 2**32 - 1, 2**32),
    "membership": tuple(Membership),
    "paused": (False, True),
    "excluded": (False, True),
    "base": (-1, 0, UNIT - 1, UNIT, UNIT + 1, 2**64),
    "since": (
        *(-(2**63) - 1, -(2**63), -1, 0, 2**63 - 1, 2**63),
        *(NOW - 1, NOW, NOW + 1, NOW - 2**21 + 1, NOW - 2**21),
    ),
    # A mean of 184 / 10 has 64 bits; a mean of 185 / 10 has more.
    "pool": (b"", bytes(135), bytes(136), 135 * b"\n", *(bytes((sum_,)) for sum_ in (184, 185))),
    "pool_sum": (-1, 0, 2**32 - 1, 2**32),
    "prior": (None, -1, 0, UNIT, UNIT + 1, 2**64 - 1, 2**64),
    "last_scored_at": (None, -1, 0, 2**40 - 1, 2**40),
    "kickout_due_time": (None, 0, NOW),
}


def make_extreme_node(chance: Random) -> Node:
    """Return a node with up to three extreme values, some of which no leaf can have."""
    node = make_random_node(chance)
    for name in chance.sample(sorted(_EXTREMES), chance.randrange(4)):
        setattr(node, name, chance.choice(_EXTREMES[name]))
    return node


# The columns of a row, in order.
ROW_COLUMNS = (
    *("seat", "address", "next_address", "is_member", "paused", "excluded", "base", "since"),
    *("pool", "pool_sum", "prior", "last_scored_at", "kickout_due_time"),
)


def build_leaf_row(node: Node, next_node: Address) -> LeafRow:
    """Return the row of the database from which the leaf of a node is computed."""
    return (
        node.seat,
        bytes.fromhex(node.address[2:]),
        bytes.fromhex(next_node[2:]),
        node.membership is Membership.MEMBER,
        node.paused,
        node.excluded,
        node.base,
        node.since,
        node.pool,
        node.pool_sum,
        node.prior,
        node.last_scored_at,
        node.kickout_due_time,
    )


def make_random_leaf_batch(chance: Random, node_count: int) -> bytes:
    """Return encoded leaves of some of the first `node_count` seats, in any order, with repeats.

    Only the seats and the lanes differ from leaf to leaf.
    """
    return b"".join(
        _encode_seat_and_lane(chance.randrange(node_count), chance.choice((1, 2, 3, 10_002)))
        for _ in range(chance.randrange(2 * node_count))
    )


def make_leaf_batch_of_all_seats(chance: Random, node_count: int) -> bytes:
    """Return the encoded leaves of the first `node_count` seats, in order and without repeats."""
    return b"".join(
        _encode_seat_and_lane(seat, chance.choice((1, 2, 10_002))) for seat in range(node_count)
    )


def _encode_seat_and_lane(seat: int, lane: int) -> bytes:
    return NodeLeaf(
        Address("0x" + 40 * "0"), Address("0x" + 40 * "0"), lane, LeafFlag.MEMBER, seat,
        score_count=0, score_sum=0, reliability=0, kickout_due_since=0, last_scored_at=0,
        pool_hash=bytes(32),
    ).encode()  # fmt: skip


# Values that no row has; the last are beyond the field of the leaf.
SPOILED = (None, "1", 1.5, b"", bytes(21), -1, 2**63, 2**64, 2**200)


def spoil_row(chance: Random, row: LeafRow) -> LeafRow:
    """Return a row with another value in one column, or with another number of columns."""
    if chance.random() < 0.1:
        return (*row, 0) if chance.random() < 0.5 else row[1:]  # type: ignore[return-value]
    values: list[Any] = [*row]
    values[chance.randrange(len(values))] = chance.choice(SPOILED)
    return tuple(values)
