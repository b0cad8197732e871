"""The documentation about the code is up to date."""

import re
from pathlib import Path

import pytest

from oracle.daemon.config.loader import Config, read_config
from oracle.resources import find_shipped_path
from reference.metrics_page import get_metric_labels

ROOT = Path(__file__).resolve().parents[3]
ALERTS = (ROOT / "ops" / "prometheus" / "alerts.yml").read_text("utf-8")
# Names in CONTRIBUTING.md that stand for any name.
_EXAMPLE_NAMES = {"node_warned", "subject_past_verb"}
# Name and expression of every alert.
RULES = re.findall(r"- alert: (\w+)\n\s+expr: (.+)", ALERTS)


@pytest.mark.parametrize("name", ["example", "demo"])
def test_shipped_configurations_are_valid(name):
    assert read_config(find_shipped_path(f"config/{name}.toml")).chain.id == 31337


def test_shipped_public_network_configuration_sends_nothing():
    written = read_config(find_shipped_path("config/crynux.toml"))

    assert written.chain.id == 18896214
    assert written.oracle.address is None
    assert not written.feed.may_publish
    assert not written.dispatch.enabled


def test_example_configuration_contains_the_defaults():
    written = read_config(find_shipped_path("config/example.toml"))
    for section in ("oracle", "rules", "limits", "web", "log"):
        defaults = getattr(Config.model_fields[section], "default")  # noqa: B009 - of pydantic
        written_section = getattr(written, section)
        for key in type(written_section).model_fields:
            if (section, key) != ("oracle", "address"):
                assert getattr(written_section, key) == getattr(defaults, key), f"{section}.{key}"


def test_every_alert_uses_existing_metrics():
    ends = ("", "_bucket", "_count", "_sum")
    metric_names = {f"{name}{end}" for name in get_metric_labels() for end in ends}
    for alert, expression in RULES:
        assert set(re.findall(r"\boracle_\w+", expression)) <= metric_names, alert


def test_glossary_entries_are_unique_and_sorted():
    sections = [
        re.findall(r"^\| \*\*(.+?)\*\*", section, re.MULTILINE)
        for page in ("reference/glossary.md", "explanation/legacy.md")
        for section in (ROOT / "docs" / page).read_text("utf-8").split("\n## ")
    ]
    terms = [term for section in sections for term in section]
    assert len(terms) > 40
    assert len(terms) == len(set(terms))
    for section in sections:
        assert section == sorted(section, key=str.lower)


def test_decision_numbers_are_unique():
    numbers = sorted(path.name[:4] for path in (ROOT / "docs").glob("**/decisions/[0-9]*.md"))
    assert len(numbers) == len(set(numbers))


def test_every_path_in_contributing_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = {
        reference.partition("#")[0]
        for code in re.findall(r"`([^`\n]+)`", text)
        for reference in code.split()
        if "/" in reference and not re.search(r"[<>(:]", reference)
    }
    gone = {
        path
        for path in named
        if not path.startswith(("build/", "./", "origin/"))
        and not any(list(root.glob(path)) for root in (ROOT, ROOT / "oracle"))
    }
    assert len(named) > 20
    assert gone == set()


def test_every_code_name_in_contributing_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    names = {
        name
        for code in re.findall(r"`([^`\n]+)`", text)
        for name in re.findall(r"[A-Za-z_]\w*(?:_\w+|[a-z][A-Z]\w+)", code)
        if "<" not in code
    }
    code_words = set[str]()
    for folder in ("oracle", "devnet", "lab", "gateway", "tests", "ops"):
        for path in (ROOT / folder).rglob("*.py"):
            code_words |= {path.stem, *re.findall(r"\w+", path.read_text("utf-8"))}
    assert len(names) > 40
    assert names - code_words - _EXAMPLE_NAMES == set()
