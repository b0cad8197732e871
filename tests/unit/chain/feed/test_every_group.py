"""Every group of three that the relay can close is reconstructed from the relay's rows alone."""

from collections.abc import Iterator, Sequence

from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Address
from oracle.queries.relay_audit.own_figures import DerivedFigures, derive_figures_from_rows
from tests.support.feeds.relay_rules import (
    ALL_GROUPS,
    INCORRECT,
    ClosedGroup,
    Stream,
    can_identify_timeout,
    close_group,
    make_node_address,
)


def rows_of(outcomes: Sequence[str], closed: ClosedGroup) -> list[FeedRow]:
    """Return the rows that the relay writes when three nodes join and run one group."""
    stream = Stream()
    for place in range(3):
        stream.emit(
            "NodeJoin", make_node_address(place), "", node_address=make_node_address(place)
        )
    stream.play_group((0, 1, 2), (0, 1, 2), outcomes, closed)
    return [FeedRow(*row) for row in stream.rows]


def node(place: int) -> Address:
    return Address(make_node_address(place))


def pools_of(figures: DerivedFigures) -> list[list[int]]:
    return [list(figures.nodes[node(place)].state.pool) for place in range(3)]


def expected_pools(closed: ClosedGroup) -> list[list[int]]:
    return [[] if score is None else [score] for score in closed.scores]


def test_scores_of_all_groups_of_three_match_the_relay():
    for outcomes in ALL_GROUPS:
        closed = close_group(outcomes)
        figures = derive_figures_from_rows(rows_of(outcomes, closed), {})

        expected = expected_pools(closed)
        actual_pools = pools_of(figures)
        if can_identify_timeout(outcomes):
            assert actual_pools == expected, outcomes
            continue
        # The possible 0 of the timed-out member is not a score: it is listed as possible.
        for place, outcome in enumerate(outcomes):
            own = figures.nodes[node(place)]
            if outcome == "T":
                assert actual_pools[place] == [], outcomes
                assert bool(own.possible_zero_rows) == (expected[place] == [0]), outcomes
            else:
                assert actual_pools[place] == expected[place], outcomes


def groups_with(end: int) -> Iterator[tuple[str, ...]]:
    return (outcomes for outcomes in ALL_GROUPS if end in close_group(outcomes).ends)


def test_reference_relay_reproduces_scores_computed_by_hand():
    """ABT, AET, EET, EEA and AAQ, computed by hand."""
    assert close_group("ABT").ends == (INCORRECT, INCORRECT, None)
    assert close_group("ABT").scores == (10, 5, 0)
    assert close_group("AET").scores == (10, 5, 0)
    assert close_group("EET").ends == (INCORRECT, INCORRECT, None)
    assert close_group("EEA").ends == (INCORRECT, INCORRECT, "TaskEndInvalidated")
    assert close_group("EEA").scores == (10, 5, None)
    assert close_group("AAQ").scores == (10, 5, None)
    assert not close_group("EEE").closes
    assert len(list(groups_with(INCORRECT))) > 60
