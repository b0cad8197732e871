"""The page's checks of an evidence bundle: all pass, and each forged value is named."""

import copy
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.store.database import Store
from tests.support.bundles import BUNDLE_RULES, SLOW_NODE, Bundle, BundledNode, bundle_slow_node
from tests.support.page_scripts import needs_node, run_page_script

pytestmark = needs_node
Check = dict[str, Any]


@pytest.fixture(scope="module")
def bundled(sqlite_template, tmp_path_factory) -> BundledNode:
    return make_bundle(sqlite_template, tmp_path_factory.mktemp("bundle"))


def make_bundle(template: Path, folder: Path, **options: Any) -> BundledNode:
    """Return a bundle from a new database; `options` are those of `bundle_slow_node`."""
    path = folder / "index.sqlite"
    shutil.copyfile(template, path)
    with Store.open(f"sqlite:///{path}") as store:
        return bundle_slow_node(store, **options)


def run_checks(cases) -> list[list[Check]]:
    script = "(cases) => cases.map(([bundle, events]) => checkBundle(bundle, events))"
    checks: list[list[Check]] = run_page_script(script, cases)
    return checks


def list_results(checks: list[Check]) -> dict[str, bool | None]:
    return {check["name"]: check["is_true"] for check in checks}


def test_real_bundle_passes_every_check(bundled: BundledNode):
    cases = [(bundled.bundle, None), (bundled.bundle, bundled.events)]
    without_events, with_events = run_checks(cases)
    names = [check["name"] for check in with_events]
    assert names == [
        "Bundle", "Rules", "Signatures", "Proof", "Pool", "Points", "QoS", "Events", "Evidence",
        "Due since", "Held", "All events",
    ]  # fmt: skip
    assert [check for check in with_events if check["is_true"] is not True] == []
    assert [check["name"] for check in without_events if check["is_true"] is not True] == [
        "All events"
    ]


def change_evidence(change: Callable[[Bundle], object]) -> Callable[[Bundle], None]:
    """Return a forgery of the evidence, written as the daemon writes it."""

    def forge(bundle: Bundle) -> None:
        evidence = json.loads(bundle["evidence"])
        change(evidence)
        bundle["evidence"] = json.dumps(evidence, sort_keys=True, indent=1) + "\n"

    return forge


def change_rules(name: str, value: object) -> Callable[[Bundle], None]:
    def forge(bundle: Bundle) -> None:
        content = json.loads(bundle["rules_id"])
        content["rules"][name] = value
        bundle["rules_id"] = json.dumps(content, sort_keys=True, separators=(",", ":"))

    return forge


def change_flags(bundle: Bundle) -> None:
    """Clear the flag *held* in the leaf, and in the values that the server states."""
    leaf = bundle["proof"]["leaf"]
    flags = int(leaf["encoded"][2 + 2 * 93 : 2 + 2 * 94], 16)
    assert flags & 8
    leaf["encoded"] = leaf["encoded"][:188] + f"{flags & ~8:02x}" + leaf["encoded"][190:]
    leaf["is_held"] = False


def change_leaf(name: str, value: int) -> Callable[[Bundle], None]:
    """Return a forgery of a number in the third word of the leaf."""
    offset, bits = LEAF_BITS[name]

    def forge(bundle: Bundle) -> None:
        encoded = bundle["proof"]["leaf"]["encoded"]
        word = int(encoded[130:194], 16)
        word = word & ~(((1 << bits) - 1) << offset) | value << offset
        bundle["proof"]["leaf"]["encoded"] = f"{encoded[:130]}{word:064x}{encoded[194:]}"

    return forge


# Offset and number of bits (docs/reference/report-format.md#roots).
LEAF_BITS = {"lane": (0, 16), "reliability": (104, 64), "kickout_due_since": (168, 40)}


def hide_kickout(bundle: Bundle) -> None:
    """State in the leaf that no kickout is due, and none is held."""
    change_flags(bundle)
    change_leaf("kickout_due_since", 0)(bundle)


def change_digit(text: str) -> str:
    return text[:-1] + ("1" if text[-1] == "0" else "0")


def find_event(bundle: Bundle, kind: str) -> Bundle:
    """Return the first event of a kind about a task of the slow node."""
    events: list[Bundle] = bundle["events"]
    return next(
        event for event in events if event["type"] == kind and event.get("node") == SLOW_NODE
    )


def forge_signature(bundle: Bundle) -> None:
    signatures = bundle["signed_round"]["signatures"]
    signatures[0] = signatures[0][:40] + change_digit(signatures[0][40:50]) + signatures[0][50:]


# Each forgery, and the first check that must fail.
FORGERIES: dict[str, tuple[str, Callable[[Bundle], object]]] = {
    "score": ("Pool", lambda bundle: bundle["scores"][-1].update(score=0)),
    "rank": ("Points", lambda bundle: bundle["scores"][-1].update(rank=1)),
    "evidence-score": ("Points", change_evidence(lambda e: e["entries"][1].update(score=10))),
    "evidence-rank": ("Events", change_evidence(lambda e: e["entries"][1].update(rank=9))),
    "evidence-sum": ("Evidence", change_evidence(lambda e: e.update(sum=0))),
    "evidence-line": (
        "Evidence",
        change_evidence(lambda e: e.update(kickout_below="9.000000000000000000")),
    ),
    "evidence-creators": ("Evidence", change_evidence(lambda e: e.update(creators=2))),
    "evidence-creator": (
        "Held",
        change_evidence(
            lambda e: (
                [
                    entry.update(creator=f"0x{number:040x}")
                    for number, entry in enumerate(e["entries"])
                ]
                and e.update(creators=4, most_of_one_creator=1, decisive_of_one_creator=0)
            )
        ),
    ),
    "evidence-node": ("Evidence", change_evidence(lambda e: e.update(node="0x" + 40 * "1"))),
    "evidence-rules": (
        "Evidence",
        change_evidence(lambda e: e.update(rules_sha256=64 * "0")),
    ),
    "evidence-left-out": ("Evidence", change_evidence(lambda e: e["entries"].pop(1))),
    "lane": ("QoS", change_leaf("lane", 9_000)),
    "reliability": ("QoS", change_leaf("reliability", 10**18 // 3)),
    "reliability-above-1": ("QoS", change_leaf("reliability", 2 * 10**18)),
    "held-but-not-due": ("Due since", change_leaf("kickout_due_since", 0)),
    "no-kickout-due": ("Due since", hide_kickout),
    "due-since-of-the-leaf": ("Due since", change_leaf("kickout_due_since", 7)),
    "due-since-log": (
        "All events",
        change_evidence(lambda e: e["due_since"].update(log=e["due_since"]["log"] + 1)),
    ),
    "score-creator": ("Events", lambda bundle: bundle["scores"][0].update(creator=None)),
    "score-left-out": ("Pool", lambda bundle: bundle["scores"].pop(1)),
    "score-left-out-of-everything": (
        "Events",
        lambda bundle: bundle["scores"].pop(1) and bundle.update(evidence=None),
    ),
    "score-number": ("Pool", lambda bundle: bundle["scores"][-1].update(seq=99)),
    "score-of-another-time": ("Pool", lambda bundle: bundle["scores"][-1].update(time=7)),
    "evidence-of-other-scores": (
        "Evidence",
        lambda bundle: bundle["scores"][0].update(task="0x" + 64 * "1"),
    ),
    "evidence-of-incidents": (
        "Evidence",
        change_evidence(lambda e: e.update(scores_in_incidents=1)),
    ),
    "round-as-text": (
        "Bundle",
        lambda bundle: bundle["signed_round"].update(round="1, all is well"),
    ),
    "node-as-text": ("Bundle", lambda bundle: bundle.update(node="your node")),
    "due-since": ("Due since", change_evidence(lambda e: e["entries"][-1].update(time=7))),
    "signature": ("Signatures", forge_signature),
    "signatures-twice": (
        "Signatures",
        lambda bundle: bundle["signed_round"].update(
            signatures=2 * bundle["signed_round"]["signatures"][:1]
        ),
    ),
    "deadline": ("Signatures", lambda bundle: bundle["signed_round"].update(deadline=1)),
    "other-signers": (
        "Rules",
        lambda bundle: bundle["signed_round"]["configuration"]["signers"].pop(),
    ),
    "lower-quorum": (
        "Rules",
        lambda bundle: bundle["signed_round"]["configuration"].update(quorum=1),
    ),
    "quorum-of-two-words": (
        "Bundle",
        lambda bundle: bundle["signed_round"]["configuration"].update(quorum="0x1" + 64 * "0"),
    ),
    "rules": ("Rules", change_rules("rank_scores", [10, 5, 3])),
    "rules-line": ("Rules", change_rules("kickout_below", "1")),
    "event-time": (
        "Events",
        lambda bundle: find_event(bundle, "task_submitted").update(
            time=find_event(bundle, "task_submitted")["time"] + 400
        ),
    ),
    "event-time-of-its-block": (
        "Bundle",
        lambda bundle: find_event(bundle, "task_started").update(time=7),
    ),
    "event-left-out": (
        "Events",
        lambda bundle: bundle["events"].remove(find_event(bundle, "task_submitted")),
    ),
    "event-node": (
        "Events",
        lambda bundle: find_event(bundle, "task_started").update(node="0x" + 40 * "1"),
    ),
    "proof-hash": (
        "Proof",
        lambda bundle: bundle["proof"]["proof"].__setitem__(
            0, change_digit(bundle["proof"]["proof"][0])
        ),
    ),
    "proof-left-out": ("Proof", lambda bundle: bundle["proof"]["proof"].pop(0)),
    "leaf-held": ("Proof", change_flags),
    "leaf-of-another-node": ("Proof", lambda bundle: bundle.update(node="0x" + 40 * "1")),
    "root": (
        "Signatures",
        lambda bundle: bundle["signed_round"].update(root="0x" + 64 * "5"),
    ),
    "evidence-missing": ("Due since", lambda bundle: bundle.update(evidence=None)),
    "no-json": ("Bundle", lambda bundle: bundle.update(rules_id="{")),
    "no-entries": ("Bundle", lambda bundle: bundle.update(evidence="{}")),
    "version": ("Bundle", lambda bundle: bundle.update(bundle_version=2)),
    "prototype": (
        "Bundle",
        lambda bundle: bundle["events"].append({"type": "constructor", "block": 1, "log": 1}),
    ),
}
# Missing parts are not wrong, but are reported as not checked.
OPEN_FORGERIES = {"evidence-missing"}


@pytest.mark.slow
def test_every_kind_of_forged_bundle_fails_its_check(bundled: BundledNode):
    forged_bundles = []
    for _, forge in FORGERIES.values():
        forged = copy.deepcopy(bundled.bundle)
        forge(forged)
        assert forged != bundled.bundle
        forged_bundles.append((forged, bundled.events))
    for name, checks in zip(FORGERIES, run_checks(forged_bundles), strict=True):
        results = list_results(checks)
        assert results[FORGERIES[name][0]] is (None if name in OPEN_FORGERIES else False), name


# Values on which no score and no signature depends: those that an endpoint has to confirm, and
# notes.
UNCHECKED = re.compile(r"/signed_round/accepted_at|/logs|/holds_kickouts")


def iter_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every number, text and state in a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from iter_paths(item, f"{path}/{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from iter_paths(item, f"{path}/{index}")
    else:
        yield path


def change_at(bundle: Bundle, path: str, rng: random.Random) -> Bundle:
    """Return a copy of a bundle with one value changed."""
    changed = copy.deepcopy(bundle)
    *parents, last = path.removeprefix("/").split("/")
    place: Any = changed
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    key = int(last) if isinstance(place, list) else last
    place[key] = change_value(place[key], rng)
    return changed


def change_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value is None:
        return 1
    position = rng.randrange(len(value))
    digit = "1" if value[position] == "0" else "0"
    return value[:position] + digit + value[position + 1 :]


def test_kickout_that_depends_on_incidents_is_confirmed_only_with_all_events(
    sqlite_template, tmp_path
):
    """The rule is known; its effect stays open without the file of all events."""
    rules = replace(BUNDLE_RULES, kick_creator_share=UNIT, kick_incident_share=UNIT // 5)
    bundled = make_bundle(sqlite_template, tmp_path, rules=rules)
    evidence = json.loads(bundled.bundle["evidence"])
    assert evidence["scores_in_incidents"] == 0
    forged = copy.deepcopy(bundled.bundle)
    change_evidence(lambda e: e.update(scores_in_incidents=1))(forged)
    cases = [(bundled.bundle, None), (bundled.bundle, bundled.events), (forged, bundled.events)]
    without_events, with_events, wrong = map(list_results, run_checks(cases))
    assert {name for name, is_true in without_events.items() if is_true is not True} == {
        "Held",
        "All events",
    }
    assert without_events["Held"] is None
    assert with_events["All events"] is True
    assert wrong["All events"] is False


def test_absence_of_an_address_is_proven_from_the_full_event_history(sqlite_template, tmp_path):
    bundled = make_bundle(sqlite_template, tmp_path, address=Address("0x" + 40 * "7"))
    named = {**bundled.events[0], "node": bundled.bundle["node"]}
    cases = [
        (bundled.bundle, None),
        (bundled.bundle, bundled.events),
        (bundled.bundle, [named, *bundled.events[1:]]),
    ]
    without_events, with_events, wrong = map(list_results, run_checks(cases))
    assert without_events == {
        "Bundle": True, "Rules": True, "Signatures": True, "Proof": True, "All events": None,
    }  # fmt: skip
    assert with_events == {**without_events, "All events": True}
    assert wrong["All events"] is False


def test_scores_remain_unchecked_if_a_rule_is_unknown(bundled: BundledNode):
    forged = copy.deepcopy(bundled.bundle)
    change_rules("a_new_rule", 1)(forged)
    (checks,) = run_checks([(forged, None)])
    assert list_results(checks)["Scores"] is None
    assert "Bundle" not in {check["name"] for check in checks if check["is_true"] is False}


def test_held_flag_remains_unchecked_without_the_profile(bundled: BundledNode):
    """A server could state that the profile holds all kickouts, to explain any flag."""
    forged = copy.deepcopy(bundled.bundle)
    change_rules("kick_creator_share", "1")(forged)
    forged["holds_kickouts"] = True
    (checks,) = run_checks([(forged, None)])
    held = next(check for check in checks if check["name"] == "Held")
    assert (held["is_true"], held["is_optional"]) == (None, False)


@pytest.mark.slow
def test_bundle_with_any_value_changed_fails_check(bundled: BundledNode):
    rng = random.Random(7)  # noqa: S311 - the same changes each time
    paths = [path for path in iter_paths(bundled.bundle) if not UNCHECKED.search(path)]
    sampled = rng.sample(paths, min(150, len(paths)))
    cases = [(change_at(bundled.bundle, path, rng), bundled.events) for path in sampled]
    passed = [
        path
        for path, checks in zip(sampled, run_checks(cases), strict=True)
        if not any(check["is_true"] is False for check in checks)
    ]
    assert passed == []
