"""Which systems a comparison has: names, files, changes of one or all, and grids."""

import json

import pytest

from lab.backtest.parameter_grid import read_grid
from lab.backtest.system_columns import MOST_COLUMNS, Grid, Setting, SystemBase, columns_of
from oracle.domain.fixed_point import UNIT
from oracle.systems.crynux.crynux_rule_sets import RELAY, SEED

LEGACY = [
    "legacy:legacy.vram_weight=0.2",
    "legacy:legacy.timeout_weight=0.3",
    "legacy:legacy.speed_weight=0.5",
    "legacy:legacy.least_timeout_seconds=60",
    "legacy:legacy.kickout_below=5",
    "legacy:legacy.kickout_tasks=10",
]


def columns(*names, changes=(), grid=None):
    bases = [SystemBase.named(name) for name in names]
    return columns_of(bases, [Setting.read(text) for text in changes], grid)


def grid(text, *, is_toml=False):
    return read_grid(text, SystemBase.named, is_toml=is_toml)


def test_a_name_is_a_rule_set_with_the_policy_of_its_system():
    (seed, relay), notes = columns("seed", "relay")
    assert (seed.name, seed.rules, seed.policy) == ("seed", SEED, "seed")
    assert (relay.name, relay.rules, relay.policy) == ("relay", RELAY, "relay")
    assert notes == []


def test_another_policy_is_taken_by_its_name():
    (column,), _ = columns("seed@relay")
    assert (column.name, column.rules, column.policy) == ("seed@relay", SEED, "relay")


def test_a_written_rule_set_is_picked_by_the_policy_of_its_name_or_of_seed():
    assert SystemBase.read('{"name": "relay", "version": 7}').policy == "relay"
    assert SystemBase.read('{"name": "ours", "version": 1}').policy == "seed"


def test_a_change_reaches_every_rule_set_and_is_seen_in_the_name():
    (seed, relay), notes = columns("seed", "relay", changes=["penalty=0.5"])
    assert seed.rules.penalty == relay.rules.penalty == UNIT // 2
    assert (seed.name, relay.name) == ("seed*", "relay*")
    assert notes == []


def test_a_change_of_one_rule_set_leaves_the_others_alone():
    (seed, relay), _ = columns("seed", "relay", changes=["seed:penalty=0.5"])
    assert (seed.rules.penalty, relay) == (UNIT // 2, columns("relay")[0][0])


def test_a_change_of_one_system_wins_over_a_change_of_all_in_any_order():
    for changes in (["penalty=0.5", "seed:penalty=0.6"], ["seed:penalty=0.6", "penalty=0.5"]):
        (seed, relay), _ = columns("seed", "relay", changes=changes)
        assert (seed.rules.penalty, relay.rules.penalty) == (6 * UNIT // 10, UNIT // 2)


def test_a_number_of_the_policy_is_changed_as_a_rule_is():
    (seed, article), notes = columns("seed", "article", changes=["weight_floor=0.01"])
    assert (seed.name, seed.rules, seed.tuning) == ("seed*", SEED, {"weight_floor": "0.01"})
    assert seed.parameters["weight_floor"] == "0.01"
    assert (article.name, article.tuning) == ("article", {})
    assert notes == ["article has no rule weight_floor: it is compared without that change"]


def test_a_rule_that_does_nothing_under_legacy_is_left_alone_there():
    (seed, legacy), notes = columns("seed", "legacy", changes=[*LEGACY, "pool_size=30"])
    assert (seed.rules.pool_size, legacy.rules.pool_size) == (30, SEED.pool_size)
    assert notes == ["legacy has no rule pool_size: it is compared without that change"]


def test_a_system_without_rules_has_the_numbers_of_its_policy():
    (article,), _ = columns("article", changes=["article:max_tickets=20"])
    assert (article.name, article.parameters["max_tickets"]) == ("article*", "20")
    assert article.rules == SEED


def test_a_system_stands_beside_itself_with_changes_of_its_own():
    bases = [
        SystemBase.named("seed"),
        SystemBase.named("seed").changed_by(["weight_floor=0.01", "boost=1"]),
    ]
    (seed, floored), _ = columns_of(bases, [])
    assert (seed.name, seed.changes) == ("seed", {})
    assert floored.name == "seed weight_floor=0.01 boost=1"
    assert (floored.rules.boost, floored.tuning) == (UNIT, {"weight_floor": "0.01"})


def test_a_change_of_its_own_wins_over_a_change_of_all_of_that_name():
    bases = [SystemBase.named("seed"), SystemBase.named("seed").changed_by(["penalty=0.5"])]
    settings = [Setting.read(text) for text in ("seed:penalty=0.2", "tau_seconds=9")]
    (one, other), _ = columns_of(bases, settings)
    assert (one.name, one.rules.penalty) == ("seed*", UNIT // 5)
    assert (other.name, other.rules.penalty) == ("seed penalty=0.5*", UNIT // 2)
    assert one.rules.tau_seconds == other.rules.tau_seconds == 9


def test_a_grid_tries_numbers_of_the_policy():
    tried = grid('{"rules": "seed", "set": {"weight_floor": ["0", "0.01"]}}')
    found, _ = columns_of([], [], tried)
    assert [column.name for column in found] == ["seed weight_floor=0", "seed weight_floor=0.01"]
    assert [column.parameters["weight_floor"] for column in found] == ["0", "0.01"]


def test_a_grid_does_not_try_what_its_system_has_of_its_own():
    tried = Grid([SystemBase.named("seed").changed_by(["boost=1"])], {"boost": ["0.1"]})
    with pytest.raises(ValueError, match="grid: boost: seed boost=1 has its own value"):
        columns_of([], [], tried)


def test_a_system_of_a_grid_that_is_compared_already_is_refused():
    tried = Grid([SystemBase.named("seed")], {"boost": ["1"]})
    with pytest.raises(ValueError, match="seed boost=1 is compared twice"):
        columns_of([SystemBase.named("seed").changed_by(["boost=1"])], [], tried)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["luck=1"], "luck: no such rule in seed .there is .*penalty, .*weight_floor"),
        (["=1"], "must be key=value"),
        (["boost=1", "boost=2"], "seed: boost: given twice"),
    ],
)
def test_a_change_of_its_own_that_cannot_be_is_refused(words, said):
    with pytest.raises(ValueError, match=said):
        SystemBase.named("seed").changed_by(words)


def test_rules_of_the_legacy_system_are_given_by_their_dotted_names():
    (column,), _ = columns("legacy", changes=LEGACY)
    assert column.rules.legacy is not None
    assert column.rules.legacy.kickout_tasks == 10


def test_a_rule_that_one_system_has_not_is_said():
    _, notes = columns("seed", "legacy", changes=[*LEGACY, "legacy.window_seconds=3600"])
    assert notes == ["seed has no rule legacy.window_seconds: it is compared without that change"]


def test_every_combination_of_a_grid_is_a_column():
    tried = grid('{"rules": "seed", "set": {"tau_seconds": [900, 1800], "penalty": ["0.3", 0.5]}}')
    found, _ = columns_of([], [], tried)
    assert [column.name for column in found] == [
        "seed tau_seconds=900 penalty=0.3",
        "seed tau_seconds=900 penalty=0.5",
        "seed tau_seconds=1800 penalty=0.3",
        "seed tau_seconds=1800 penalty=0.5",
    ]
    assert found[1].rules.tau_seconds == 900
    assert found[1].rules.penalty == UNIT // 2


def test_a_grid_may_be_toml_with_dotted_names_and_several_rule_sets():
    text = 'rules = ["seed", "relay"]\n[set]\nrank_scores = [[10, 5, 2], [10, 9, 6]]\n'
    found, _ = columns_of([], [], grid(text, is_toml=True))
    assert [column.rules.rank_scores for column in found] == 2 * [(10, 5, 2), (10, 9, 6)]
    dotted = grid('rules = "legacy"\nset.legacy.kickout_tasks = [5, 9]\n', is_toml=True)
    found, _ = columns_of([], [Setting.read(text) for text in LEGACY], dotted)
    assert [dict(column.changes or {})["legacy.kickout_tasks"] for column in found] == ["5", "9"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "brackets"),
        ("[]", "must be an object"),
        ('{"rules": "seed"}', "set: must say"),
        ('{"set": {"penalty": ["1"]}}', "rules: must be a rule set"),
        ('{"rules": ["seed", "seed"], "set": {"penalty": ["1"]}}', "twice"),
        ('{"rules": "fair", "set": {"penalty": ["1"]}}', "no rule set 'fair'"),
        ('{"rules": "seed", "set": {"penalty": "0.3"}}', "set.penalty: must be a list"),
        ('{"rules": "seed", "set": {"penalty": ["0.3", "0.3"]}}', "names a value twice"),
        ('{"rules": "seed", "set": {"penalty": [[[]]]}, "more": 1}', "more: no such key"),
    ],
)
def test_a_grid_that_cannot_be_read_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        grid(text)


@pytest.mark.parametrize(
    ("names", "changes", "said"),
    [
        (("seed", "seed"), (), "seed is given twice"),
        (("seed",), ("fairness=1",), "fairness: no such rule in seed"),
        (("seed",), ("penalty=1", "penalty=0.5"), "--set penalty: given twice"),
        (("article",), ("penalty=1",), "penalty: no such rule in article .there is expected, "),
        (("seed",), ("weight_floor=x",), "seed: weight_floor: must be a decimal"),
        (("seed",), ("relay:penalty=1",), "relay: no such rule set is compared"),
        (("seed",), ("penalty=7",), "seed: penalty: must be above 0"),
        (("legacy",), (), "legacy"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused(names, changes, said):
    with pytest.raises(ValueError, match=said):
        columns(*names, changes=changes)


@pytest.mark.parametrize("text", ["penalty", "=1", ":penalty=1"])
def test_a_setting_without_its_parts_is_refused(text):
    with pytest.raises(ValueError, match="key=value"):
        Setting.read(text)


def test_a_rule_that_a_grid_tries_must_be_there():
    with pytest.raises(ValueError, match="grid: fairness: no such rule in seed"):
        columns_of([], [], Grid([SystemBase.named("seed")], {"fairness": ["1"]}))


def test_a_grid_of_too_many_columns_is_refused():
    values = [str(number) for number in range(1, MOST_COLUMNS + 2)]
    tried = read_grid(
        json.dumps({"rules": "seed", "set": {"tau_seconds": values}}),
        SystemBase.named,
        is_toml=False,
    )
    with pytest.raises(ValueError, match=f"more than {MOST_COLUMNS}"):
        columns_of([], [], tried)
