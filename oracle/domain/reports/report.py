"""Cuts a report: the words of lanes that are sent to the contract for a period.

The bytes of a report depend only on the chain up to the as-of block and on the rules id. See
docs/explanation/reports.md#cut-at-period-end, docs/explanation/reports.md#fold-what-is-on-chain,
docs/reference/report-format.md#lanes.
"""

import hashlib
import json
from dataclasses import dataclass

from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import NO_REGISTRATIONS, Registrations
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import HIGHEST_SCORE, LOWEST_SCORE, get_band, unpack_lanes
from oracle.domain.reports.round_data import encode_records, encode_round
from oracle.domain.reports.rounds import Rounds
from oracle.domain.reports.target_words import TargetWords
from oracle.domain.scoring.rules import Rules

# Default maximum number of words in a report: about 6.5 million gas, 24 million if all are new.
# Words that do not fit come first in the next report.
MAX_WORDS = 1024
# Default number of consecutive rounds below the kickout line
# (docs/explanation/reports.md#low-rounds).
KICK_AFTER_ROUNDS = 3
# Default number of scores that a node needs before a round registers it.
MIN_SCORES = 1


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The settings that decide the content of a report; all of them are part of the rules id.

    `period_seconds` is the length of a period, `heartbeat_seconds` the maximum age of a word
    on-chain. A word is sent if a lane changes by `deviation` steps (0.0001) or more. The contract
    accepts a report until `ttl_seconds` after its as-of block. `kick_below` is the contract's
    kickout line in QoS steps, 2000 for 0.2. A kickout is proposed after `kick_after_rounds`
    consecutive accepted rounds below the line, which are part of the evidence. A report holds at
    most `max_words` words; the next one carries the rest (decision 0084). A node needs
    `min_scores` scores before a round registers it (decision 0170).
    """

    period_seconds: int = 60
    heartbeat_seconds: int = 3600
    deviation: int = 100
    ttl_seconds: int = 600
    kick_below: int = 2000
    kick_after_rounds: int = KICK_AFTER_ROUNDS
    max_words: int = MAX_WORDS
    min_scores: int = MIN_SCORES

    def __post_init__(self) -> None:
        positive_fields = ("period_seconds", "heartbeat_seconds", "deviation", "ttl_seconds")
        for name in (*positive_fields, "kick_after_rounds", "max_words", "min_scores"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name}: must be at least 1, not {value}")
        if not 0 <= self.kick_below <= HIGHEST_SCORE - LOWEST_SCORE:
            raise ValueError(f"kick_below: must be 0 to 10000, not {self.kick_below}")

    @property
    def kick_line(self) -> int:
        """The kickout line as a lane."""
        return self.kick_below + LOWEST_SCORE


@dataclass(frozen=True, slots=True)
class Report:
    """The report of period `period` as of its last block.

    `head_round` is the last round accepted up to the as-of block, and `prev` its digest, so the
    report can only become round `head_round + 1`. If `records` is empty, there is nothing to send;
    a report always includes the lanes of the nodes it registers. `root` is the root of all nodes
    as of the last block, in round `head_round + 1` (docs/reference/report-format.md#roots).
    """

    period: int
    as_of: BlockRef
    head_round: int
    prev: Hash
    deadline: int
    root: Hash
    records: bytes
    registrations: Registrations = NO_REGISTRATIONS

    @property
    def data(self) -> bytes:
        """The bytes that are pushed and hashed; empty if there is nothing to send."""
        return encode_round(self.registrations, self.records) if self.records else b""

    @property
    def fingerprint(self) -> Hash:
        """The sha256 of the whole report, used to compare reporters and rebuilds."""
        head = (
            f"{self.period} {self.as_of.number} {self.as_of.hash} {self.as_of.time} "
            f"{self.head_round} {self.prev} {self.deadline} {self.root}\n"
        )
        return Hash("0x" + hashlib.sha256(head.encode() + self.data).hexdigest())


def compute_period(time: int, length: int) -> int:
    """Return the number of the period that contains `time`; both arguments are in seconds.

    See docs/explanation/reports.md#cut-at-period-end.
    """
    return time // length


def hash_rules_and_settings(rules: Rules, profile: str, settings: ReportSettings) -> Hash:
    """Return the sha256 that the contract stores as `rulesHash`.

    The hashed text is the canonical JSON of everything that all reporters must share. See
    docs/reference/report-format.md#rules-id.
    """
    content: dict[str, object] = {
        "deviation": settings.deviation,
        "heartbeat_seconds": settings.heartbeat_seconds,
        "kick_after_rounds": settings.kick_after_rounds,
        "kick_below": settings.kick_below,
        "max_words": settings.max_words,
        "min_scores": settings.min_scores,
        "period_seconds": settings.period_seconds,
        "profile": profile,
        "report_ttl_seconds": settings.ttl_seconds,
        "rules": json.loads(rules.to_json()),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return Hash("0x" + hashlib.sha256(text.encode()).hexdigest())


def cut_report(
    as_of: BlockRef,
    rounds: Rounds,
    target_words: TargetWords,
    settings: ReportSettings,
    root: Hash,
) -> Report:
    """Compare the target words with the words on-chain, and return a report of what to send.

    Args:
        as_of: the last block of the period.
        rounds: the contract's state, exactly as of that block.
        target_words: every word with an assigned lane, including lanes of nodes to be registered.
        settings: the settings that are part of the rules id.
        root: the root of all nodes as of that block, in the next round.
    """
    word_indexes = _select_words(as_of, rounds, target_words, settings)
    return Report(
        period=compute_period(as_of.time, settings.period_seconds),
        as_of=as_of,
        head_round=rounds.head.round,
        prev=rounds.head.digest,
        deadline=as_of.time + settings.ttl_seconds,
        root=root,
        records=encode_records(
            [(index, target_words.words[index]) for index in sorted(word_indexes)]
        ),
        registrations=target_words.registrations,
    )


def _select_words(
    as_of: BlockRef, rounds: Rounds, target_words: TargetWords, settings: ReportSettings
) -> list[int]:
    """Return the numbers of the words to send, by urgency and then age, at most `max_words`.

    If one word is as old as the heartbeat, all words are sent, so that they keep the same age.
    """
    ranked: list[tuple[int, int, int]] = []
    is_heartbeat = False
    for index, word in target_words.words.items():
        stored_word = rounds.words.get(index)
        written_time = as_of.time if stored_word is None else stored_word.time
        is_heartbeat = is_heartbeat or as_of.time - written_time >= settings.heartbeat_seconds
        urgency = _compute_urgency(0 if stored_word is None else stored_word.value, word, settings)
        ranked.append(
            (_NEW_NODE if index in target_words.new_node_words else urgency, written_time, index)
        )
    ranked.sort()
    selected = ranked[: settings.max_words]
    return [index for urgency, _, index in selected if is_heartbeat or urgency < _UNCHANGED]


_NEW_NODE, _CROSSED, _DEVIATED, _UNCHANGED = range(4)


def _compute_urgency(stored_word: int, target_word: int, settings: ReportSettings) -> int:
    if stored_word == target_word:
        return _UNCHANGED
    # Most changed words differ in one lane of sixteen.
    pairs = [
        (old_lane, new_lane)
        for old_lane, new_lane in zip(
            unpack_lanes(stored_word), unpack_lanes(target_word), strict=True
        )
        if old_lane != new_lane
    ]
    line = settings.kick_line
    if any(get_band(old_lane, line) != get_band(new_lane, line) for old_lane, new_lane in pairs):
        return _CROSSED
    if any(abs(old_lane - new_lane) >= settings.deviation for old_lane, new_lane in pairs):
        return _DEVIATED
    return _UNCHANGED
