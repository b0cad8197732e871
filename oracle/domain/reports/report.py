"""A report: which words of lanes a period sends to the contract.

Its bytes are a function of the chain up to the as-of block and of the rules id, nothing else.
See docs/explanation/reports.md#cut-at-period-end,
docs/explanation/reports.md#fold-what-is-on-chain, docs/reference/report-format.md#lanes.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import (
    HIGHEST_SCORE,
    LOWEST_SCORE,
    Bands,
    lane_of,
    lanes_of,
    with_lane,
    word_of,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.legacy_factors import peers_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node

# One record is the word's number and the word: 3 + 32 bytes
# (docs/reference/report-format.md#lanes).
RECORD_BYTES = 35
# Words a report may carry where nothing else is set: about 6.5 million gas, 24 million where all
# of them are new. What does not fit leads the next report.
MAX_WORDS = 1024
# Rounds in a row under the kickout line, unless an operator says otherwise
# (docs/explanation/reports.md#low-rounds).
KICK_AFTER_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The numbers that decide what a report says; all of them are part of the rules id.

    `period_seconds`: length of a period. `heartbeat_seconds`: no word on chain grows older than
    this. `deviation`: lane steps (0.0001) beyond which a word is sent.
    `ttl_seconds`: how long after the as-of block the contract still takes it. `kick_below`: the
    contract's kickout line in QoS steps, 2000 for 0.2. `kick_after_rounds`: accepted rounds in a
    row that must have shown a node under it before its kickout is proposed; they are part of the
    evidence. `max_words`: words of a report; the next one carries the rest (decision 0084).
    """

    period_seconds: int = 60
    heartbeat_seconds: int = 3600
    deviation: int = 100
    ttl_seconds: int = 600
    kick_below: int = 2000
    kick_after_rounds: int = KICK_AFTER_ROUNDS
    max_words: int = MAX_WORDS

    def __post_init__(self) -> None:
        lengths = ("period_seconds", "heartbeat_seconds", "deviation", "ttl_seconds")
        for name in (*lengths, "kick_after_rounds", "max_words"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 <= self.kick_below <= HIGHEST_SCORE - LOWEST_SCORE:
            raise ValueError("kick_below must lie in 0..10000")

    @property
    def bands(self) -> Bands:
        return Bands(self.kick_below + LOWEST_SCORE)


@dataclass(frozen=True, slots=True)
class Report:
    """What period `period` says as of its last block.

    `head_round` and `prev` are the last accepted round at or below the as-of block and its
    digest: the report can only become round `head_round + 1`. Empty `records`: nothing to say.
    """

    period: int
    as_of: BlockRef
    head_round: int
    prev: Hash
    deadline: int
    records: bytes

    @property
    def fingerprint(self) -> Hash:
        """sha256 of everything in it, by which two reporters or a rebuild compare."""
        head = (
            f"{self.period} {self.as_of.number} {self.as_of.hash} {self.as_of.time} "
            f"{self.head_round} {self.prev} {self.deadline}\n"
        )
        return Hash("0x" + hashlib.sha256(head.encode() + self.records).hexdigest())


def period_of(time: int, length: int) -> int:
    """Return the number of the period that `time` lies in, both in seconds.

    See docs/explanation/reports.md#cut-at-period-end.
    """
    return time // length


def rules_id(rules: Rules, profile: str, settings: ReportSettings) -> Hash:
    """Return the sha256 that the contract stores as `rulesHash`.

    The text is the canonical JSON of everything that a reporter must share with the others.
    See docs/reference/report-format.md#rules-id.
    """
    content: dict[str, object] = {
        "deviation": settings.deviation,
        "heartbeat_seconds": settings.heartbeat_seconds,
        "kick_below": settings.kick_below,
        "period_seconds": settings.period_seconds,
        "profile": profile,
        "report_ttl_seconds": settings.ttl_seconds,
        "rules": json.loads(rules.to_json()),
    }
    # Contracts deployed before there was this number hold an id without it.
    if settings.kick_after_rounds != KICK_AFTER_ROUNDS:
        content["kick_after_rounds"] = settings.kick_after_rounds
    if settings.max_words != MAX_WORDS:
        content["max_words"] = settings.max_words
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return Hash("0x" + hashlib.sha256(text.encode()).hexdigest())


def cut(
    as_of: BlockRef, rounds: Rounds, wanted: Mapping[int, int], settings: ReportSettings
) -> Report:
    """Compare the words wanted at `as_of` with those on chain, and keep what is worth sending.

    Args:
        as_of: the last block of the period; `rounds` stands exactly there.
        rounds: the contract's state at `as_of`.
        wanted: word number to word, for every word with an assigned lane.
        settings: the numbers of the rules id.
    """
    chosen = _chosen(as_of, rounds, wanted, settings)
    return Report(
        period=period_of(as_of.time, settings.period_seconds),
        as_of=as_of,
        head_round=rounds.head.round,
        prev=rounds.head.digest,
        deadline=as_of.time + settings.ttl_seconds,
        records=encode([(index, wanted[index]) for index in sorted(chosen)]),
    )


def wanted_words(
    rounds: Rounds, nodes: Mapping[Address, Node], time: int, rules: Rules
) -> dict[int, int]:
    """Return every word with an assigned lane as a report at `time` wants it, from nothing.

    Retired lanes say that their node is not to be selected.
    """
    words: dict[int, int] = {}
    peers = peers_at(nodes.values(), time, rules)
    for entry in rounds.indexes.values():
        lane = lane_of(None if entry.retired else nodes.get(entry.node), time, rules, peers)
        number = word_of(entry.index)
        words[number] = with_lane(words.get(number, 0), entry.index, lane)
    return words


def encode(words: list[tuple[int, int]]) -> bytes:
    """Write records of 35 bytes: 3-byte word number, strictly ascending, and the word."""
    return b"".join(index.to_bytes(3, "big") + word.to_bytes(32, "big") for index, word in words)


def decode(records: bytes) -> list[tuple[int, int]]:
    """Read records back.

    Raises:
        ValueError: the length is no multiple of 35 or the words do not ascend.
    """
    if len(records) % RECORD_BYTES:
        raise ValueError(f"{len(records)} bytes are no whole number of records")
    words = [
        (int.from_bytes(records[at : at + 3]), int.from_bytes(records[at + 3 : at + RECORD_BYTES]))
        for at in range(0, len(records), RECORD_BYTES)
    ]
    if any(one[0] >= next_one[0] for one, next_one in pairwise(words)):
        raise ValueError("the words do not ascend")
    return words


def word_among(records: bytes, index: int) -> int | None:
    """Return the word `index` of records, which ascend; None: it is not among them."""
    first, end = 0, len(records) // RECORD_BYTES
    while first < end:
        middle = (first + end) // 2
        at = middle * RECORD_BYTES
        found = int.from_bytes(records[at : at + 3])
        if found == index:
            return int.from_bytes(records[at + 3 : at + RECORD_BYTES])
        first, end = (middle + 1, end) if found < index else (first, middle)
    return None


def _chosen(
    as_of: BlockRef, rounds: Rounds, wanted: Mapping[int, int], settings: ReportSettings
) -> list[int]:
    """Return the words to send: urgent ones first, then the longest unsent, at most `max_words`.

    One word as old as the heartbeat brings all the others along, so that they stay in step.
    """
    ranked: list[tuple[int, int, int]] = []
    is_heartbeat = False
    for index, word in wanted.items():
        on_chain = rounds.words.get(index)
        written = 0 if on_chain is None else on_chain.time
        is_heartbeat = is_heartbeat or as_of.time - written >= settings.heartbeat_seconds
        urgency = _urgency(0 if on_chain is None else on_chain.value, word, settings)
        ranked.append((urgency, written, index))
    ranked.sort()
    fitting = ranked[: settings.max_words]
    return [index for urgency, _, index in fitting if is_heartbeat or urgency < _UNCHANGED]


_CROSSED, _DEVIATED, _UNCHANGED = 0, 1, 2


def _urgency(on_chain: int, wanted: int, settings: ReportSettings) -> int:
    if on_chain == wanted:
        return _UNCHANGED
    bands = settings.bands
    pairs = list(zip(lanes_of(on_chain), lanes_of(wanted), strict=True))
    if any(bands.band_of(one) != bands.band_of(other) for one, other in pairs):
        return _CROSSED
    if any(abs(one - other) >= settings.deviation for one, other in pairs):
        return _DEVIATED
    return _UNCHANGED
