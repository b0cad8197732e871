"""Which words a report sends, and that its bytes depend on nothing but the chain."""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.oracle_events import NodeRegistered, Registrations
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.lanes import extract_lane, get_word_index, replace_lane, unpack_lanes
from oracle.domain.reports.report import (
    MAX_WORDS,
    ReportSettings,
    compute_period,
    cut_report,
    hash_rules_and_settings,
)
from oracle.domain.reports.round_data import (
    decode_records,
    decode_round,
    encode_records,
    find_word,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.reports.target_words import TargetWords
from oracle.errors import FatalError
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.rounds import accepted, address, registered, round_of

SETTINGS = ReportSettings()
AT = 1_000_000


def block(number=100, time=AT):
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


def on_chain(words, *, time=AT - 60):
    rounds = Rounds()
    rounds.fold_block(51, [accepted(1, words, time=time)], journal=False)
    return rounds


def drawn(rounds, words, *, at=None, settings=SETTINGS, root=ZERO_HASH, **more):
    return cut_report(at or block(), rounds, TargetWords(words, **more), settings, root)


def sent(rounds, target_words, *, at=None, settings=SETTINGS):
    return dict(decode_records(drawn(rounds, target_words, at=at, settings=settings).records))


def one_lane(lane, index=3):
    return {get_word_index(index): replace_lane(0, index, lane)}


words = st.dictionaries(st.integers(0, 2**20 - 1), st.integers(0, 2**256 - 1), max_size=8)
lanes = st.integers(0, 10_002)


@given(words)
def test_records_round_trip(word_by_index):
    assert decode_records(encode_records(sorted(word_by_index.items()))) == sorted(
        word_by_index.items()
    )


@given(words, st.integers(0, 9))
def test_find_word_returns_value_by_index(word_by_index, place):
    records = encode_records(sorted(word_by_index.items()))
    for number in [*word_by_index, place]:
        assert find_word(records, number) == word_by_index.get(number)


@pytest.mark.parametrize(
    "records", [b"x", encode_records([(2, 1), (1, 1)]), encode_records([(1, 1), (1, 2)])]
)
def test_malformed_records_are_rejected(records):
    with pytest.raises(ValueError, match=r"records|ascend"):
        decode_records(records)


@given(st.integers(0, 2**256 - 1), st.integers(0, 2**24 - 1), lanes)
def test_setting_lane_keeps_other_lanes(word, index, lane):
    changed = replace_lane(word, index, lane)

    assert extract_lane(changed, index) == lane
    before, after = list(unpack_lanes(word)), list(unpack_lanes(changed))
    before[index % 16] = after[index % 16] = 0
    assert before == after


def test_new_word_is_sent():
    assert sent(Rounds(), one_lane(5002)) == one_lane(5002)


def test_unchanged_word_is_not_sent():
    assert sent(on_chain(one_lane(5002)), one_lane(5002)) == {}


@pytest.mark.parametrize(("lane", "is_sent"), [(5101, False), (5102, True), (4902, True)])
def test_change_is_sent_when_it_reaches_the_deviation(lane, is_sent):
    assert bool(sent(on_chain(one_lane(5002)), one_lane(lane))) is is_sent


@pytest.mark.parametrize(
    ("before", "after"),
    [(2, 1), (1, 2), (2001, 2002), (2002, 2001), (0, 1)],
    ids=["excluded", "selectable again", "over the kickout line", "under it", "first report"],
)
def test_band_crossing_is_sent_regardless_of_size(before, after):
    assert sent(on_chain(one_lane(before)), one_lane(after)) == one_lane(after)


def test_all_words_are_sent_after_heartbeat():
    same = {0: 5002, 1: 6002}
    at = block(time=AT + SETTINGS.heartbeat_seconds)

    assert sent(on_chain(same, time=AT + 1), same, at=at) == {}
    assert sent(on_chain(same, time=AT), same, at=at) == same


def test_band_crossings_come_first_when_report_is_full():
    before = {index: replace_lane(0, 0, 5002) for index in range(MAX_WORDS + 1)}
    target_words = {index: replace_lane(0, 0, 7002) for index in range(MAX_WORDS + 1)}
    target_words[MAX_WORDS] = replace_lane(0, 0, 1)

    chosen = sent(on_chain(before), target_words)

    assert len(chosen) == MAX_WORDS
    assert MAX_WORDS in chosen
    assert MAX_WORDS - 1 not in chosen


def test_report_builds_on_last_round_at_as_of_block():
    report = drawn(on_chain(one_lane(5002)), one_lane(7002))

    assert (report.head_round, report.prev) == (1, Hash(f"0x{1:064x}"))
    assert report.deadline == AT + SETTINGS.ttl_seconds


@given(words, words, st.randoms(use_true_random=False))
def test_report_bytes_are_independent_of_word_order(before, target_words, shuffler):
    mixed = list(target_words.items())
    shuffler.shuffle(mixed)

    plain = drawn(on_chain(dict(sorted(before.items()))), target_words)
    shuffled_report = drawn(on_chain(before), dict(mixed))

    assert plain.fingerprint == shuffled_report.fingerprint


def test_fingerprint_depends_on_the_block():
    prints = {
        drawn(Rounds(), one_lane(5002), at=at).fingerprint
        for at in (block(), block(number=101), block(time=AT + 1))
    }
    assert len(prints) == 3


def test_rules_id_depends_on_every_shared_setting():
    ids = {
        hash_rules_and_settings(CRYNUX, "reference", SETTINGS),
        hash_rules_and_settings(RELAY, "reference", SETTINGS),
        hash_rules_and_settings(CRYNUX, "crynux-vss", SETTINGS),
        *(
            hash_rules_and_settings(CRYNUX, "reference", ReportSettings(**{name: 7}))
            for name in (
                "period_seconds",
                "heartbeat_seconds",
                "deviation",
                "ttl_seconds",
                "kick_below",
                "kick_after_rounds",
                "max_words",
                "min_scores",
            )
        ),
    }
    assert len(ids) == 11


@pytest.mark.parametrize("name", ["period_seconds", "heartbeat_seconds", "deviation"])
def test_report_setting_of_0_is_rejected(name):
    with pytest.raises(ValueError, match=name):
        ReportSettings(**{name: 0})


def test_period_is_time_divided_by_length():
    assert [compute_period(time, 60) for time in (0, 59, 60, 121)] == [0, 0, 1, 2]


def test_full_report_still_includes_the_words_of_newly_registered_nodes():
    before = {index: replace_lane(0, 0, 5002) for index in range(MAX_WORDS)}
    target_words = {index: replace_lane(0, 0, 1) for index in range(MAX_WORDS)}
    fresh = {MAX_WORDS: replace_lane(0, 0, 5002)}

    report = drawn(
        on_chain(before),
        target_words | fresh,
        registrations=Registrations((), (address(1),)),
        new_node_words=frozenset(fresh),
    )

    assert MAX_WORDS in dict(decode_records(report.records))
    assert decode_round(report.data).registrations.appended == (address(1),)


def test_report_with_a_new_word_omits_unchanged_words():
    before = one_lane(5002, index=3)

    assert sent(on_chain(before), before | one_lane(7002, index=40)) == one_lane(7002, index=40)


def test_unchanged_report_has_no_data():
    assert drawn(on_chain(one_lane(5002)), one_lane(5002)).data == b""


def test_accepted_rounds_determine_indexes():
    rounds = registered(address(1))
    events = [*round_of(rounds, accepted(2, {}, Registrations((), (address(2),))))]
    rounds.fold_block(2, events, journal=False)

    assert rounds.index_by_node == {address(1): 0, address(2): 1}


@pytest.mark.parametrize("said", [[], [(address(2), 7)], [(address(3), 1)]])
def test_registration_mismatch_with_contract_raises_fatal_error(said):
    rounds = registered(address(1))
    events = [NodeRegistered(Position(2, 0, 0), 0, node, index) for node, index in said]
    accepted_round = accepted(2, {}, Registrations((), (address(2),)))

    with pytest.raises(FatalError, match="round 2 in block 2"):
        rounds.fold_block(2, [*events, accepted_round], journal=False)
