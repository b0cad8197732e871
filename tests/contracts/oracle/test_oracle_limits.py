"""What the limits can be: their ranges, their floors, and how they are tightened at once."""

import pytest

from tests.contracts.oracle_driver import FLOORS, KICK_LIMITS, LIMITS, Oracle, deployed
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

HOUR, DAY = 3_600, 86_400
# What gives less room: a field in its tight direction. anchorWindow has none.
TIGHTER: dict[str, int] = {
    "maxWords": 50,
    "maxNewNodes": 0,
    "minInterval": HOUR,
    "maxAgeSeconds": 2 * HOUR,
    "kickBelow": 0,
    "vetoDelay": 7 * DAY,
    "kickRounds": 100,
    "kickWindow": 1,
    "maxKicksPerRound": 0,
    "minOpen": 1_000,
    "fallShare": 0,
    "bigFall": 0,
}
# What the floors of a real deployment are like: docs/how-to has them.
SOUND = FLOORS | {
    "vetoDelay": 600,
    "kickRounds": 2,
    "kickBelow": 2_000,
    "maxKicksPerRound": 3,
    "fallShare": 1_000,
}
ROOMY = LIMITS | {"fallShare": 1_000, "maxAgeSeconds": DAY, "minInterval": 10}


@pytest.fixture(scope="module")
def fresh_sound(fresh_chain: Chain) -> Oracle:
    return deployed(fresh_chain, limits=ROOMY, floors=SOUND)


@pytest.fixture
def sound(chain: Chain, fresh_sound: Oracle) -> Oracle:
    """Deployed with floors."""
    return fresh_sound


def tightened(oracle: Oracle, **changes: int) -> None:
    new_limits = tuple((oracle.named("limits") | changes).values())
    oracle.do("tightenLimits", new_limits, sender=oracle.pauser)


# --- ranges ---


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("maxWords", 0),
        ("maxWords", 2_048),
        ("anchorWindow", 0),
        ("anchorWindow", 1),
        ("anchorWindow", 8_192),
        ("maxAgeSeconds", 0),
        ("maxAgeSeconds", 30 * DAY + 1),
        ("kickBelow", 10_001),
        ("kickWindow", 0),
        ("fallShare", 10_001),
        ("bigFall", 10_001),
    ],
)
def test_out_of_range_limits_are_rejected(oracle: Oracle, name: str, wrong: int):
    with pytest.raises(RevertedError, match="BadLimits"):
        oracle.limited(**{name: wrong})
    assert oracle.named("limits") == LIMITS


@pytest.mark.parametrize(
    ("name", "edge"),
    [
        ("maxWords", 1),
        ("maxWords", 2_047),
        ("maxNewNodes", 0),
        ("minInterval", 0),
        ("anchorWindow", 2),
        ("anchorWindow", 8_191),
        ("maxAgeSeconds", 1),
        ("maxAgeSeconds", 30 * DAY),
        ("kickBelow", 10_000),
        ("kickBelow", 0),
        ("kickWindow", 1),
        ("fallShare", 0),
        ("bigFall", 10_000),
        ("bigFall", 0),
    ],
)
def test_limits_at_the_ends_of_their_range_are_accepted(oracle: Oracle, name: str, edge: int):
    event = oracle.limited(**{name: edge}).only("LimitsSet")
    assert dict(event["limits"]) == LIMITS | {name: edge}
    assert oracle.named("limits") == LIMITS | {name: edge}


@pytest.mark.parametrize(
    ("name", "wrong"), [("bucketFrame", 0), ("kickGas", 49_999), ("kickGas", 15_000_001)]
)
def test_out_of_range_kick_limits_are_rejected(oracle: Oracle, name: str, wrong: int):
    new_limits = tuple((KICK_LIMITS | {name: wrong}).values())
    with pytest.raises(RevertedError, match="BadLimits"):
        oracle.do("setKickLimits", new_limits, sender=oracle.admin)
    assert oracle.named("kickLimits") == KICK_LIMITS


# --- floors ---


def test_limits_within_floors_are_accepted(sound: Oracle):
    assert sound.named("floors") == SOUND
    sound.do("setLimits", tuple(ROOMY.values()), sender=sound.admin)
    assert sound.named("limits") == ROOMY


@pytest.mark.parametrize(
    ("name", "looser"),
    [
        ("vetoDelay", 599),
        ("kickRounds", 1),
        ("kickBelow", 2_001),
        ("maxKicksPerRound", 4),
        ("fallShare", 1_001),
    ],
)
def test_admin_cannot_loosen_limits_beyond_floors(sound: Oracle, name: str, looser: int):
    looser_limits = ROOMY | {name: looser}
    with pytest.raises(RevertedError, match="BadLimits"):
        sound.do("setLimits", tuple(looser_limits.values()), sender=sound.admin)
    with pytest.raises(RevertedError, match="BadLimits"):
        deployed(sound.chain, limits=looser_limits, floors=SOUND)


@pytest.mark.parametrize("name", [name for name in FLOORS if name != "anchorWindow"])
def test_every_limit_can_have_a_floor(oracle: Oracle, name: str):
    """The limits of the tests are its floors: one step looser in any of them is too much."""
    is_least = TIGHTER[name] > LIMITS[name]
    one_looser = LIMITS[name] + (-1 if is_least else 1)
    bound = LIMITS | {"maxWords": 100}
    deployed(oracle.chain, limits=LIMITS, floors=bound)
    with pytest.raises(RevertedError, match="BadLimits"):
        deployed(oracle.chain, limits=LIMITS | {name: one_looser}, floors=bound)


# --- tightening ---


@pytest.mark.parametrize("name", TIGHTER)
def test_pauser_tightens_limits_immediately(oracle: Oracle, name: str):
    oracle.limited(maxAgeSeconds=DAY)
    tightened(oracle, **{name: TIGHTER[name]})
    assert oracle.named("limits")[name] == TIGHTER[name]


@pytest.mark.parametrize("name", TIGHTER)
def test_pauser_cannot_loosen_limits(oracle: Oracle, name: str):
    one_looser = LIMITS[name] + (-1 if TIGHTER[name] > LIMITS[name] else 1)
    with pytest.raises(RevertedError, match="BadLimits"):
        tightened(oracle, **{name: one_looser})
    # Not in exchange for something tighter either.
    other_name = "kickRounds" if name != "kickRounds" else "maxWords"
    with pytest.raises(RevertedError, match="BadLimits"):
        tightened(oracle, **{name: one_looser, other_name: TIGHTER[other_name]})


@pytest.mark.parametrize("window", [7_999, 8_001])
def test_pauser_cannot_change_anchor_window(oracle: Oracle, window: int):
    with pytest.raises(RevertedError, match="BadLimits"):
        tightened(oracle, anchorWindow=window)


@pytest.mark.parametrize(
    ("name", "value"),
    [("minInterval", HOUR + 1), ("vetoDelay", 7 * DAY + 1), ("maxAgeSeconds", 2 * HOUR - 1)],
)
def test_pauser_cannot_tighten_limits_beyond_bounds(oracle: Oracle, name: str, value: int):
    with pytest.raises(RevertedError, match="BadLimits"):
        tightened(oracle, **{name: value})


def test_limits_set_by_admin_beyond_pauser_bounds_do_not_block_the_pauser(oracle: Oracle):
    beyond = {"minInterval": 2 * HOUR, "vetoDelay": 8 * DAY, "maxAgeSeconds": HOUR}
    oracle.limited(**beyond)
    tightened(oracle, fallShare=500)
    assert oracle.named("limits") == LIMITS | beyond | {"fallShare": 500}


def test_tightening_limits_to_their_current_values_is_accepted(oracle: Oracle):
    tightened(oracle)
    assert oracle.named("limits") == LIMITS
