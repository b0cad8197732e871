"""What `docker compose up` starts is there, and each speaks to one that it starts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
SERVICES = set(re.findall(r"^  ([a-z]+):$", COMPOSE.split("\nvolumes:")[0], re.MULTILINE))
MOUNTED = re.findall(r"^      - \./([^:\n]+):", COMPOSE, re.MULTILINE)
# What an operator writes, and what `make docs` builds.
MADE = {"config/local.toml", "keys", "build/site"}


def asked_by(path: str) -> set[str]:
    """Hosts with a port that a file names, but for this machine."""
    text = (ROOT / path).read_text("utf-8")
    told = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    return set(re.findall(r"\b([a-z]+):\d{4}\b", told))


@pytest.mark.parametrize("path", sorted(set(MOUNTED) - MADE))
def test_what_is_mounted_lies_in_the_checkout(path: str):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(
    "path",
    ["ops/prometheus/prometheus.yml", "ops/grafana/provisioning/datasources/prometheus.yml"],
)
def test_whom_a_service_asks_is_a_service(path: str):
    assert asked_by(path)
    assert asked_by(path) <= SERVICES


def test_grafana_finds_the_dashboard_where_it_is_mounted():
    provider = ROOT / "ops" / "grafana" / "provisioning" / "dashboards" / "qos-oracle.yml"
    (folder,) = re.findall(r"path: (\S+)", provider.read_text("utf-8"))
    assert f"./ops/grafana/qos-oracle.json:{folder}/qos-oracle.json:ro" in COMPOSE
