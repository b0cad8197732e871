"""What is written about the code keeps up with it."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel

from oracle import telemetry
from oracle.daemon.config.loader import Config, load
from oracle.resources import shipped
from oracle.telemetry import metrics, outbox_metrics
from oracle.telemetry.metrics import Census, DispatchCensus
from oracle.telemetry.outbox_metrics import (
    AccountFigures,
    ContractFigures,
    OutboxFigures,
    ReportFigures,
    Totals,
)

ROOT = Path(__file__).resolve().parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text("utf-8")
ALERTS = (ROOT / "ops" / "prometheus" / "alerts.yml").read_text("utf-8")
# Name and expression of every alert.
RULES = re.findall(r"- alert: (\w+)\n\s+expr: (.+)", ALERTS)


def settings() -> list[str]:
    names = []
    for section, field in Config.model_fields.items():
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, BaseModel)
        names += [f"{section}.{key}" for key in field.annotation.model_fields]
    return names


def full_outbox() -> OutboxFigures:
    """Figures with nothing left out."""
    return OutboxFigures(
        Totals(),
        accounts={"transmitter": AccountFigures(1, 0, 0, 1, 1, 1, 1.0, "funds")},
        contract=ContractFigures(1, 1, 0, kicks_paused=False, rules_agree=True, kick_tokens=1),
        report=ReportFigures(1, 1),
        heartbeat_seconds=3600,
    )


def metric_names() -> list[str]:
    """Every series that the daemon can show, histograms by their own name."""
    return list(metric_labels())


def metric_labels() -> dict[str, tuple[str, ...]]:
    """Their names with the labels that they are made with."""
    with everything_shown():
        # Of a metric without a series only the collector knows the labels.
        return {
            f"{family.name}_total" if family.type == "counter" else family.name: tuple(
                getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            )
            for collector in metrics.REGISTRY._collector_to_names
            for family in collector.collect()
        }


@contextmanager
def everything_shown() -> Iterator[None]:
    """Let the registry hold every family that the daemon can show."""
    full = Census(
        nodes={"available": 1},
        kickouts={"due": 0},
        outbox={("push", "live"): 1},
        round_age=1,
        balance_wei=1,
        dispatch=DispatchCensus(balance_wei=1),
    )
    # Each module of it puts its own on the list.
    for module in pkgutil.iter_modules(telemetry.__path__, f"{telemetry.__name__}."):
        importlib.import_module(module.name)
    metrics.show(full)
    outbox_metrics.show(full_outbox())
    try:
        yield
    finally:
        metrics.show(None)
        outbox_metrics.show(None)


@pytest.mark.parametrize("name", settings())
def test_every_setting_is_in_the_operating_manual(name):
    assert f"`{name}`" in OPERATING


@pytest.mark.parametrize("name", settings())
def test_every_setting_is_in_the_example(name):
    section, key = name.split(".")
    text = shipped("config/example.toml").read_text("utf-8")
    body = text.split(f"[{section}]", 1)[1].split("\n[", 1)[0]
    assert re.search(rf"^(# )?{key} = ", body, re.MULTILINE)


@pytest.mark.parametrize("name", ["example", "demo"])
def test_shipped_configurations_are_sound(name):
    assert load(shipped(f"config/{name}.toml")).chain.id == 31337


def test_the_example_says_the_defaults():
    written = load(shipped("config/example.toml"))
    for section in ("oracle", "rules", "limits", "web", "log"):
        defaults = getattr(Config.model_fields[section], "default")  # noqa: B009 - of pydantic
        shown = getattr(written, section)
        for key in type(shown).model_fields:
            if (section, key) != ("oracle", "address"):
                assert getattr(shown, key) == getattr(defaults, key), f"{section}.{key}"


@pytest.mark.parametrize("name", metric_names())
def test_every_metric_is_in_the_operating_manual(name):
    assert f"`{name}`" in OPERATING


@pytest.mark.parametrize(("alert", "expression"), RULES)
def test_every_alert_speaks_of_metrics_that_exist_and_is_in_the_manual(alert, expression):
    ends = ("", "_bucket", "_count", "_sum")
    known = {f"{name}{end}" for name in metric_names() for end in ends}
    assert set(re.findall(r"\boracle_\w+", expression)) <= known
    assert f"`{alert}`" in OPERATING


def test_words_of_the_glossary_stand_once_and_in_order():
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| \*\*(.+?)\*\*", glossary, re.MULTILINE)
    assert len(words) > 40
    assert len(words) == len(set(words))
    assert words == sorted(words, key=str.lower)


def test_decisions_are_numbered_without_holes_or_doubles():
    numbers = sorted(path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert len(numbers) == len(set(numbers))
