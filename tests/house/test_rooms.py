"""The house keeps its shape: small folders, one meaning a name, arrows that only get fewer."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORACLE = ROOT / "oracle"
SOURCES = sorted(ORACLE.rglob("*.py"))
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
# What decision 0141 counted; whoever turns an arrow or joins a file lowers these.
MOST_FILES = 15
ARROWS_LEFT = 44


def test_no_folder_has_more_files_than_can_be_taken_in_at_a_glance():
    folders: defaultdict[str, int] = defaultdict(int)
    for path in SOURCES:
        folders[path.parent.relative_to(ROOT).as_posix()] += 1
    crowded = {name: many for name, many in folders.items() if many > MOST_FILES}
    assert crowded == {}


def test_no_public_class_name_has_two_meanings():
    places = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_arrows_that_point_upward_only_get_fewer():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {one["id"]: one for one in told["tool"]["importlinter"]["contracts"]}
    assert len(contracts["floors"]["ignore_imports"]) <= ARROWS_LEFT


STOPS = re.findall(r"`(\w[\w/]*\.py): ([\w.]+)`", ARCHITECTURE)


@pytest.mark.parametrize(("place", "name"), STOPS)
def test_a_stop_on_the_two_ways_through_the_house_is_there(place: str, name: str):
    found = ast.parse((ORACLE / place).read_text("utf-8")).body
    for part in name.split("."):
        named = [node for node in found if getattr(node, "name", None) == part]
        assert named, f"{place}: {name}"
        found = getattr(named[0], "body", [])


def test_each_of_the_two_ways_has_at_most_twelve_stops():
    ways = re.split(r"^## The way of ", ARCHITECTURE, flags=re.MULTILINE)[1:3]
    stops = [len(re.findall(r"^\| \d+ \|", way, re.MULTILINE)) for way in ways]
    assert all(0 < many <= 12 for many in stops)
