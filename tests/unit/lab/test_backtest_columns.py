"""The systems of a comparison: names, files, changes of one or all, and grids."""

import json

import pytest

from lab.backtest.system_columns import (
    MAX_COLUMNS,
    Grid,
    Setting,
    SystemBase,
    build_columns,
    parse_grid,
)
from oracle.domain.fixed_point import UNIT
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY

LEGACY = [
    "legacy:legacy.vram_weight=0.2",
    "legacy:legacy.timeout_weight=0.3",
    "legacy:legacy.speed_weight=0.5",
    "legacy:legacy.least_timeout_seconds=60",
    "legacy:legacy.kickout_below=5",
    "legacy:legacy.kickout_tasks=10",
]


def columns(*names, changes=(), grid=None):
    bases = [SystemBase.from_name(name) for name in names]
    return build_columns(bases, [Setting.parse(text) for text in changes], grid)


def grid(text, *, is_toml=False):
    return parse_grid(text, SystemBase.from_name, is_toml=is_toml)


def test_system_name_selects_rule_set_and_its_policy():
    (crynux, relay), notes = columns("crynux", "relay")
    assert (crynux.name, crynux.rules, crynux.policy) == ("crynux", CRYNUX, "crynux")
    assert (relay.name, relay.rules, relay.policy) == ("relay", RELAY, "relay")
    assert notes == []


def test_policy_can_be_selected_with_an_at_sign():
    (column,), _ = columns("crynux@relay")
    assert (column.name, column.rules, column.policy) == ("crynux@relay", CRYNUX, "relay")


def test_json_rule_set_uses_the_policy_of_its_name_or_crynux():
    assert SystemBase.from_rules_json('{"name": "relay", "version": 7}').policy == "relay"
    assert SystemBase.from_rules_json('{"name": "ours", "version": 1}').policy == "crynux"


def test_change_applies_to_all_rule_sets_and_marks_their_names():
    (crynux, relay), notes = columns("crynux", "relay", changes=["penalty=0.5"])
    assert crynux.rules.penalty == relay.rules.penalty == UNIT // 2
    assert (crynux.name, relay.name) == ("crynux*", "relay*")
    assert notes == []


def test_change_for_one_rule_set_leaves_others_unchanged():
    (crynux, relay), _ = columns("crynux", "relay", changes=["crynux:penalty=0.5"])
    assert (crynux.rules.penalty, relay) == (UNIT // 2, columns("relay")[0][0])


def test_change_for_a_named_system_overrides_a_global_one():
    for changes in (["penalty=0.5", "crynux:penalty=0.6"], ["crynux:penalty=0.6", "penalty=0.5"]):
        (crynux, relay), _ = columns("crynux", "relay", changes=changes)
        assert (crynux.rules.penalty, relay.rules.penalty) == (6 * UNIT // 10, UNIT // 2)


def test_policy_setting_can_be_changed_like_rule():
    (crynux, article), notes = columns("crynux", "article", changes=["weight_floor=0.01"])
    assert (crynux.name, crynux.rules, crynux.policy_changes) == (
        "crynux*",
        CRYNUX,
        {"weight_floor": "0.01"},
    )
    assert crynux.policy_parameters["weight_floor"] == "0.01"
    assert (article.name, article.policy_changes) == ("article", {})
    assert notes == ["article has no rule weight_floor: it is compared without that change"]


def test_rule_unused_by_legacy_is_not_changed_in_legacy():
    (crynux, legacy), notes = columns("crynux", "legacy", changes=[*LEGACY, "pool_size=30"])
    assert (crynux.rules.pool_size, legacy.rules.pool_size) == (30, CRYNUX.pool_size)
    assert notes == ["legacy has no rule pool_size: it is compared without that change"]


def test_system_without_rules_has_parameters_of_its_policy():
    (article,), _ = columns("article", changes=["article:max_tickets=20"])
    assert (article.name, article.policy_parameters["max_tickets"]) == ("article*", "20")
    assert article.rules == CRYNUX


def test_system_can_be_compared_with_a_changed_copy_of_itself():
    bases = [
        SystemBase.from_name("crynux"),
        SystemBase.from_name("crynux").with_changes(["weight_floor=0.01", "boost=1"]),
    ]
    (crynux, floored), _ = build_columns(bases, [])
    assert (crynux.name, crynux.changes) == ("crynux", {})
    assert floored.name == "crynux weight_floor=0.01 boost=1"
    assert (floored.rules.boost, floored.policy_changes) == (UNIT, {"weight_floor": "0.01"})


def test_change_within_a_column_overrides_a_change_by_system_name():
    bases = [
        SystemBase.from_name("crynux"),
        SystemBase.from_name("crynux").with_changes(["penalty=0.5"]),
    ]
    settings = [Setting.parse(text) for text in ("crynux:penalty=0.2", "tau_seconds=9")]
    (first_column, second_column), _ = build_columns(bases, settings)
    assert (first_column.name, first_column.rules.penalty) == ("crynux*", UNIT // 5)
    assert (second_column.name, second_column.rules.penalty) == ("crynux penalty=0.5*", UNIT // 2)
    assert first_column.rules.tau_seconds == second_column.rules.tau_seconds == 9


def test_grid_can_vary_policy_settings():
    tried = grid('{"rules": "crynux", "set": {"weight_floor": ["0", "0.01"]}}')
    built_columns, _ = build_columns([], [], tried)
    assert [column.name for column in built_columns] == [
        "crynux weight_floor=0",
        "crynux weight_floor=0.01",
    ]
    assert [column.policy_parameters["weight_floor"] for column in built_columns] == ["0", "0.01"]


def test_grid_over_a_setting_that_a_system_already_sets_is_rejected():
    tried = Grid([SystemBase.from_name("crynux").with_changes(["boost=1"])], {"boost": ["0.1"]})
    with pytest.raises(ValueError, match="grid: boost: crynux boost=1 already has its own value"):
        build_columns([], [], tried)


def test_grid_column_that_repeats_a_compared_system_is_rejected():
    tried = Grid([SystemBase.from_name("crynux")], {"boost": ["1"]})
    with pytest.raises(ValueError, match="crynux boost=1 is compared twice"):
        build_columns([SystemBase.from_name("crynux").with_changes(["boost=1"])], [], tried)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["luck=1"], "luck: no such rule in crynux .available: .*penalty, .*weight_floor"),
        (["=1"], "must be key=value"),
        (["boost=1", "boost=2"], "crynux: the key boost is given twice"),
    ],
)
def test_invalid_change_of_system_is_rejected(words, message):
    with pytest.raises(ValueError, match=message):
        SystemBase.from_name("crynux").with_changes(words)


def test_legacy_rules_can_be_changed_by_dotted_names():
    (column,), _ = columns("legacy", changes=LEGACY)
    assert column.rules.legacy is not None
    assert column.rules.legacy.kickout_tasks == 10


def test_change_of_a_rule_that_does_not_exist_is_noted():
    _, notes = columns("crynux", "legacy", changes=[*LEGACY, "legacy.window_seconds=3600"])
    assert notes == [
        "crynux has no rule legacy.window_seconds: it is compared without that change"
    ]


def test_every_grid_combination_becomes_column():
    tried = grid(
        '{"rules": "crynux", "set": {"tau_seconds": [900, 1800], "penalty": ["0.3", 0.5]}}'
    )
    built_columns, _ = build_columns([], [], tried)
    assert [column.name for column in built_columns] == [
        "crynux tau_seconds=900 penalty=0.3",
        "crynux tau_seconds=900 penalty=0.5",
        "crynux tau_seconds=1800 penalty=0.3",
        "crynux tau_seconds=1800 penalty=0.5",
    ]
    assert built_columns[1].rules.tau_seconds == 900
    assert built_columns[1].rules.penalty == UNIT // 2


def test_grid_in_toml_can_have_dotted_names_and_several_rule_sets():
    text = 'rules = ["crynux", "relay"]\n[set]\nrank_scores = [[10, 5, 2], [10, 9, 6]]\n'
    built_columns, _ = build_columns([], [], grid(text, is_toml=True))
    assert [column.rules.rank_scores for column in built_columns] == 2 * [(10, 5, 2), (10, 9, 6)]
    dotted = grid('rules = "legacy"\nset.legacy.kickout_tasks = [5, 9]\n', is_toml=True)
    built_columns, _ = build_columns([], [Setting.parse(text) for text in LEGACY], dotted)
    assert [dict(column.changes or {})["legacy.kickout_tasks"] for column in built_columns] == [
        "5",
        "9",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "invalid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "expected an object"),
        ('{"rules": "crynux"}', "set: must list"),
        ('{"set": {"penalty": ["1"]}}', "rules: expected a system"),
        ('{"rules": ["crynux", "crynux"], "set": {"penalty": ["1"]}}', "twice"),
        ('{"rules": "fair", "set": {"penalty": ["1"]}}', "unknown rule set 'fair'"),
        ('{"rules": "crynux", "set": {"penalty": "0.3"}}', "set.penalty: must be a list"),
        ('{"rules": "crynux", "set": {"penalty": ["0.3", "0.3"]}}', "a value is given twice"),
        ('{"rules": "crynux", "set": {"penalty": [[[]]]}, "more": 1}', "more: no such key"),
    ],
)
def test_malformed_grid_is_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        grid(text)


@pytest.mark.parametrize(
    ("names", "changes", "message"),
    [
        (("crynux", "crynux"), (), "crynux is given twice"),
        (("crynux",), ("fairness=1",), "fairness: no such rule in crynux"),
        (("crynux",), ("penalty=1", "penalty=0.5"), "--set penalty: this key is given twice"),
        (("article",), ("penalty=1",), "penalty: no such rule in article .available: expected, "),
        (("crynux",), ("weight_floor=x",), "crynux: weight_floor: must be a decimal"),
        (("crynux",), ("relay:penalty=1",), "no compared system has the name 'relay'"),
        (("crynux",), ("penalty=7",), "crynux: penalty: must be above 0"),
        (("legacy",), (), "legacy"),
    ],
)
def test_invalid_comparison_is_rejected(names, changes, message):
    with pytest.raises(ValueError, match=message):
        columns(*names, changes=changes)


@pytest.mark.parametrize("text", ["penalty", "=1", ":penalty=1"])
def test_malformed_setting_is_rejected(text):
    with pytest.raises(ValueError, match="key=value"):
        Setting.parse(text)


def test_grid_over_unknown_rule_is_rejected():
    with pytest.raises(ValueError, match="grid: fairness: no such rule in crynux"):
        build_columns([], [], Grid([SystemBase.from_name("crynux")], {"fairness": ["1"]}))


def test_grid_with_too_many_columns_is_rejected():
    values = [str(number) for number in range(1, MAX_COLUMNS + 2)]
    tried = parse_grid(
        json.dumps({"rules": "crynux", "set": {"tau_seconds": values}}),
        SystemBase.from_name,
        is_toml=False,
    )
    with pytest.raises(ValueError, match=f"more than {MAX_COLUMNS}"):
        build_columns([], [], tried)
