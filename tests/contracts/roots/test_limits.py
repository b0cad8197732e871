"""Ranges and floors of limits, and how far the pauser can tighten them."""

import pytest

from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import (
    KICK_FLOORS,
    KICK_LIMITS,
    LAG,
    LIMITS,
    TIGHTEST,
    RootsOracle,
    deploy_roots,
)
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

DAY = 86_400
# The fields that have a tighter side; anchorWindow has none.
NAMES = [name for name in LIMITS if name != "anchorWindow"]


def tighten(oracle: RootsOracle, **changes: int) -> None:
    new_limits = tuple((oracle.named("limits") | changes).values())
    oracle.do("tightenLimits", new_limits, sender=oracle.pauser)


def is_minimum(name: str) -> bool:
    """Return whether a greater value of the limit is tighter."""
    return TIGHTEST[name] > LIMITS[name]


def loosen_by_one(name: str, value: int) -> int:
    return value - 1 if is_minimum(name) else value + 1


def tighten_by_one(name: str, value: int) -> int:
    return value + 1 if is_minimum(name) else value - 1


# --- ranges ---


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("anchorWindow", 0),
        ("anchorWindow", 1),
        ("anchorWindow", 8_192),
        ("maxAgeSeconds", 0),
        ("maxAgeSeconds", 3 * LIMITS["minInterval"] - 1),
        ("minInterval", LIMITS["maxAgeSeconds"] // (LAG + 1) + 1),
        ("maxAgeSeconds", 30 * DAY + 1),
        ("kickBelow", 10_001),
    ],
)
def test_out_of_range_limits_are_rejected(roots: RootsOracle, name: str, wrong: int):
    with pytest.raises(RevertedError, match="BadLimits"):
        roots.set_limits(**{name: wrong})
    assert roots.named("limits") == LIMITS


@pytest.mark.parametrize(
    ("name", "edge"),
    [
        ("minInterval", 0),
        ("minInterval", LIMITS["maxAgeSeconds"] // (LAG + 1)),
        ("anchorWindow", 2),
        ("anchorWindow", 8_191),
        ("maxAgeSeconds", (LAG + 1) * LIMITS["minInterval"]),
        ("maxAgeSeconds", 30 * DAY),
        ("kickBelow", 0),
        ("kickBelow", 10_000),
    ],
)
def test_limits_at_the_ends_of_their_range_are_accepted(roots: RootsOracle, name: str, edge: int):
    event = roots.set_limits(**{name: edge}).only("LimitsSet")
    assert dict(event["limits"]) == roots.named("limits") == LIMITS | {name: edge}


@pytest.mark.parametrize(("window", "accepted"), [(256, True), (257, False)])
def test_anchor_window_on_arbitrum_is_at_most_256_blocks(
    chain: Chain, window: int, *, accepted: bool
):
    changes = {
        "arbitrum": True,
        "limits": LIMITS | {"anchorWindow": window},
        "tightest": TIGHTEST | {"anchorWindow": 256},
    }
    if accepted:
        assert deploy_roots(chain, **changes).read("ON_ARBITRUM")
    else:
        with pytest.raises(RevertedError, match="BadLimits"):
            deploy_roots(chain, **changes)


@pytest.mark.parametrize(("kept", "lag", "accepted"), [(2, 2, False), (3, 2, True), (1, 0, True)])
def test_retained_rounds_must_exceed_lag(chain: Chain, kept: int, lag: int, *, accepted: bool):
    if accepted:
        oracle = deploy_roots(chain, kept=kept, lag=lag)
        assert (oracle.read("KEPT"), oracle.read("LAG")) == (kept, lag)
    else:
        with pytest.raises(RevertedError, match="BadLimits"):
            deploy_roots(chain, kept=kept, lag=lag)


# --- floors ---


@pytest.mark.parametrize("name", NAMES)
def test_limit_looser_than_its_floor_is_rejected(chain: Chain, name: str):
    """The limits of the tests are the floors: a limit that is looser by one is rejected."""
    oracle = deploy_roots(chain, floors=LIMITS)
    assert oracle.named("floors") == LIMITS
    looser = {name: loosen_by_one(name, LIMITS[name])}
    with pytest.raises(RevertedError, match="BadLimits"):
        oracle.set_limits(**looser)
    with pytest.raises(RevertedError, match="BadLimits"):
        deploy_roots(chain, floors=LIMITS, limits=LIMITS | looser)


def test_anchor_window_has_no_floor(chain: Chain):
    oracle = deploy_roots(chain, floors=LIMITS)
    for window in (2, 8_191):
        oracle.set_limits(anchorWindow=window)
        assert oracle.named("limits") == LIMITS | {"anchorWindow": window}


@pytest.mark.parametrize(
    ("name", "wrong"), [("bucketFrame", 0), ("kickGas", 49_999), ("kickGas", 15_000_001)]
)
def test_out_of_range_kick_limits_are_rejected(roots: RootsOracle, name: str, wrong: int):
    new_limits = tuple((KICK_LIMITS | {name: wrong}).values())
    with pytest.raises(RevertedError, match="BadLimits"):
        roots.do("setKickLimits", new_limits, sender=roots.admin)
    assert roots.named("kickLimits") == KICK_LIMITS


@pytest.mark.parametrize(
    ("name", "change"),
    [("kickCooldown", 1), ("bucketMost", 1), ("bucketPerFrame", 1), ("bucketFrame", -1)],
)
def test_kick_limit_looser_than_its_floor_is_rejected(chain: Chain, name: str, change: int):
    limits = KICK_LIMITS | {"kickCooldown": 1_000}
    oracle = deploy_roots(chain, kickLimits=limits, kickFloors=limits)
    assert oracle.named("kickFloors") == limits
    looser = limits | {name: limits[name] + change}
    with pytest.raises(RevertedError, match="BadLimits"):
        oracle.do("setKickLimits", tuple(looser.values()), sender=oracle.admin)
    with pytest.raises(RevertedError, match="BadLimits"):
        deploy_roots(chain, kickLimits=looser, kickFloors=limits)
    tighter = limits | {name: limits[name] - change}
    oracle.do("setKickLimits", tuple(tighter.values()), sender=oracle.admin)
    assert oracle.named("kickLimits") == tighter


def test_kickout_gas_has_no_floor(roots: RootsOracle):
    assert KICK_FLOORS["kickGas"] < 50_000
    more = KICK_LIMITS | {"kickGas": 15_000_000}
    roots.do("setKickLimits", tuple(more.values()), sender=roots.admin)
    assert roots.named("kickLimits") == more


def test_new_kick_limits_keep_tokens_up_to_the_bucket_size(roots: RootsOracle):
    assert roots.read("bucket")[0] == KICK_LIMITS["bucketMost"] == 2
    for most, left in ((1, 1), (100, 1)):
        new_limits = tuple((KICK_LIMITS | {"bucketMost": most}).values())
        roots.do("setKickLimits", new_limits, sender=roots.admin)
        assert roots.read("bucket") == [left, roots.chain.time]


# --- tightening ---


@pytest.mark.parametrize("name", NAMES)
def test_pauser_can_tighten_limit_only_to_its_bound(roots: RootsOracle, name: str):
    tighten(roots, **{name: TIGHTEST[name]})
    assert roots.named("limits") == LIMITS | {name: TIGHTEST[name]}
    with pytest.raises(RevertedError, match="BadLimits"):
        tighten(roots, **{name: tighten_by_one(name, TIGHTEST[name])})


@pytest.mark.parametrize("name", NAMES)
def test_pauser_cannot_loosen_limits(roots: RootsOracle, name: str):
    looser = {name: loosen_by_one(name, LIMITS[name])}
    other_name = "kickRounds" if name != "kickRounds" else "minOpen"
    tighter = {other_name: TIGHTEST[other_name]}
    for changes in (looser, looser | tighter):
        with pytest.raises(RevertedError, match="BadLimits"):
            tighten(roots, **changes)


@pytest.mark.parametrize("window", [7_999, 8_001])
def test_pauser_cannot_change_anchor_window(roots: RootsOracle, window: int):
    with pytest.raises(RevertedError, match="BadLimits"):
        tighten(roots, anchorWindow=window)


@pytest.mark.parametrize("name", NAMES)
def test_pauser_can_tighten_other_limits_if_one_is_beyond_its_bound(roots: RootsOracle, name: str):
    beyond = {name: tighten_by_one(name, TIGHTEST[name])}
    roots.set_limits(**beyond)
    other_name = "kickRounds" if name != "kickRounds" else "minOpen"
    tighten(roots, **{other_name: TIGHTEST[other_name]})
    expected = LIMITS | beyond | {other_name: TIGHTEST[other_name]}
    assert roots.named("limits") == expected


def test_oracle_works_with_all_limits_fully_tightened(roots: RootsOracle):
    assert roots.named("tightest") == TIGHTEST
    tighten(roots, **TIGHTEST)
    for _ in range(LAG + 1):
        roots.push_leaves(make_leaves(NODES))
    assert roots.read("isFresh")
    # The newest root with an age of LAG rounds is younger than the maximum age of scores.
    assert LAG * TIGHTEST["minInterval"] < TIGHTEST["maxAgeSeconds"]


def test_tightening_bounds_that_would_stop_the_oracle_are_rejected(chain: Chain):
    wrong = TIGHTEST | {"minInterval": TIGHTEST["maxAgeSeconds"] // (LAG + 1) + 1}
    with pytest.raises(RevertedError, match="BadLimits"):
        deploy_roots(chain, tightest=wrong)


def test_only_pauser_tightens_and_only_admin_sets_limits(roots: RootsOracle):
    values = tuple(LIMITS.values())
    for name, allowed in (("tightenLimits", "pauser"), ("setLimits", "admin")):
        for role in ("admin", "pauser", "vetoer", "transmitter"):
            if role == allowed:
                assert roots.do(name, values, sender=getattr(roots, role)).names == ["LimitsSet"]
                continue
            with pytest.raises(RevertedError, match="NotAllowed"):
                roots.do(name, values, sender=getattr(roots, role))
