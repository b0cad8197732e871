"""Which words a report sends, and that its bytes depend on nothing but the chain."""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.oracle_events import NodeRegistered
from oracle.domain.ids import Hash
from oracle.domain.registrations import Registrations
from oracle.domain.reports.lanes import extract_lane, get_word_index, replace_lane, unpack_lanes
from oracle.domain.reports.report import (
    MAX_WORDS,
    ReportSettings,
    compute_period,
    compute_rules_id,
    cut_report,
)
from oracle.domain.reports.round_data import (
    decode_records,
    decode_round,
    encode_records,
    find_word,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.reports.wanted_words import TargetWords
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


def drawn(rounds, words, *, at=None, settings=SETTINGS, **more):
    return cut_report(at or block(), rounds, TargetWords(words, **more), settings)


def sent(rounds, wanted, *, at=None, settings=SETTINGS):
    return dict(decode_records(drawn(rounds, wanted, at=at, settings=settings).records))


def one_lane(lane, index=3):
    return {get_word_index(index): replace_lane(0, index, lane)}


words = st.dictionaries(st.integers(0, 2**20 - 1), st.integers(0, 2**256 - 1), max_size=8)
lanes = st.integers(0, 10_002)


@given(words)
def test_records_are_read_back_as_they_were_written(wanted):
    assert decode_records(encode_records(sorted(wanted.items()))) == sorted(wanted.items())


@given(words, st.integers(0, 9))
def test_one_word_is_found_among_many(wanted, place):
    records = encode_records(sorted(wanted.items()))
    for number in [*wanted, place]:
        assert find_word(records, number) == wanted.get(number)


@pytest.mark.parametrize(
    "records", [b"x", encode_records([(2, 1), (1, 1)]), encode_records([(1, 1), (1, 2)])]
)
def test_records_that_no_encoder_wrote_are_refused(records):
    with pytest.raises(ValueError, match=r"records|ascend"):
        decode_records(records)


@given(st.integers(0, 2**256 - 1), st.integers(0, 2**24 - 1), lanes)
def test_setting_a_lane_leaves_the_other_fifteen_alone(word, index, lane):
    changed = replace_lane(word, index, lane)

    assert extract_lane(changed, index) == lane
    before, after = list(unpack_lanes(word)), list(unpack_lanes(changed))
    before[index % 16] = after[index % 16] = 0
    assert before == after


def test_a_word_that_never_was_on_chain_is_sent():
    assert sent(Rounds(), one_lane(5002)) == one_lane(5002)


def test_a_word_that_stands_on_chain_is_not_sent_again():
    assert sent(on_chain(one_lane(5002)), one_lane(5002)) == {}


@pytest.mark.parametrize(("lane", "is_sent"), [(5101, False), (5102, True), (4902, True)])
def test_a_change_is_sent_from_the_deviation_on(lane, is_sent):
    assert bool(sent(on_chain(one_lane(5002)), one_lane(lane))) is is_sent


@pytest.mark.parametrize(
    ("before", "after"),
    [(2, 1), (1, 2), (2001, 2002), (2002, 2001), (0, 1)],
    ids=["excluded", "selectable again", "over the kickout line", "under it", "first report"],
)
def test_crossing_a_line_is_sent_at_once_however_small_the_step(before, after):
    assert sent(on_chain(one_lane(before)), one_lane(after)) == one_lane(after)


def test_after_a_heartbeat_without_a_write_every_word_is_sent():
    same = {0: 5002, 1: 6002}
    at = block(time=AT + SETTINGS.heartbeat_seconds)

    assert sent(on_chain(same, time=AT + 1), same, at=at) == {}
    assert sent(on_chain(same, time=AT), same, at=at) == same


def test_what_does_not_fit_is_led_by_the_words_that_cross_a_line():
    before = {index: replace_lane(0, 0, 5002) for index in range(MAX_WORDS + 1)}
    wanted = {index: replace_lane(0, 0, 7002) for index in range(MAX_WORDS + 1)}
    wanted[MAX_WORDS] = replace_lane(0, 0, 1)

    chosen = sent(on_chain(before), wanted)

    assert len(chosen) == MAX_WORDS
    assert MAX_WORDS in chosen
    assert MAX_WORDS - 1 not in chosen


def test_a_report_builds_on_the_last_round_at_its_as_of_block():
    report = drawn(on_chain(one_lane(5002)), one_lane(7002))

    assert (report.head_round, report.prev) == (1, Hash(f"0x{1:064x}"))
    assert report.deadline == AT + SETTINGS.ttl_seconds


@given(words, words, st.randoms(use_true_random=False))
def test_the_order_in_which_words_became_known_does_not_change_a_byte(before, wanted, shuffler):
    mixed = list(wanted.items())
    shuffler.shuffle(mixed)

    plain = drawn(on_chain(dict(sorted(before.items()))), wanted)
    other = drawn(on_chain(before), dict(mixed))

    assert plain.fingerprint == other.fingerprint


def test_the_fingerprint_tells_reports_of_different_blocks_apart():
    prints = {
        drawn(Rounds(), one_lane(5002), at=at).fingerprint
        for at in (block(), block(number=101), block(time=AT + 1))
    }
    assert len(prints) == 3


def test_the_rules_id_changes_with_everything_that_reporters_must_share():
    ids = {
        compute_rules_id(CRYNUX, "reference", SETTINGS),
        compute_rules_id(RELAY, "reference", SETTINGS),
        compute_rules_id(CRYNUX, "crynux-vss", SETTINGS),
        *(
            compute_rules_id(CRYNUX, "reference", ReportSettings(**{name: 7}))
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
def test_settings_of_zero_are_refused(name):
    with pytest.raises(ValueError, match=name):
        ReportSettings(**{name: 0})


def test_a_period_is_a_whole_number_of_its_length():
    assert [compute_period(time, 60) for time in (0, 59, 60, 121)] == [0, 0, 1, 2]


def test_whom_a_report_registers_it_speaks_of_whatever_waits():
    before = {index: replace_lane(0, 0, 5002) for index in range(MAX_WORDS)}
    wanted = {index: replace_lane(0, 0, 1) for index in range(MAX_WORDS)}
    fresh = {MAX_WORDS: replace_lane(0, 0, 5002)}

    report = drawn(
        on_chain(before),
        wanted | fresh,
        registrations=Registrations((), (address(1),)),
        new_node_words=frozenset(fresh),
    )

    assert MAX_WORDS in dict(decode_records(report.records))
    assert decode_round(report.data).registrations.appended == (address(1),)


def test_a_word_that_never_was_on_chain_brings_no_others_along():
    before = one_lane(5002, index=3)

    assert sent(on_chain(before), before | one_lane(7002, index=40)) == one_lane(7002, index=40)


def test_a_report_with_nothing_to_say_has_no_data():
    assert drawn(on_chain(one_lane(5002)), one_lane(5002)).data == b""


def test_indexes_are_those_of_accepted_rounds_and_of_nothing_else():
    rounds = registered(address(1))
    told = [*round_of(rounds, accepted(2, {}, Registrations((), (address(2),))))]
    rounds.fold_block(2, told, journal=False)

    assert rounds.index_by_node == {address(1): 0, address(2): 1}


@pytest.mark.parametrize("said", [[], [(address(2), 7)], [(address(3), 1)]])
def test_where_the_contract_says_otherwise_than_its_rounds_everything_stops(said):
    rounds = registered(address(1))
    events = [NodeRegistered(Position(2, 0, 0), 0, node, index) for node, index in said]
    taken = accepted(2, {}, Registrations((), (address(2),)))

    with pytest.raises(FatalError, match="round 2 in block 2"):
        rounds.fold_block(2, [*events, taken], journal=False)
