"""Everything that `docker compose up` starts exists,
and each service connects to one that it starts.
"""

import re
from pathlib import Path

import pytest

from oracle.daemon.config.loader import read_config
from release.images import list_unpinned_images

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = (ROOT / "compose.yaml").read_text("utf-8")
SERVICES = set(re.findall(r"^  ([a-z]+):$", COMPOSE.split("\nvolumes:")[0], re.MULTILINE))
MOUNTED = re.findall(r"^      - \./([^:\n]+):", COMPOSE, re.MULTILINE)
FILES = {name: (ROOT / name).read_text("utf-8") for name in ("compose.yaml", "Dockerfile")}
# Files written by an operator, or built by `make docs`.
MADE = {"config/local.toml", "keys", "build/site"}


def list_named_hosts(path: str) -> set[str]:
    """Return the hosts with a port that a file names, except for this machine."""
    text = (ROOT / path).read_text("utf-8")
    uncommented = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    return set(re.findall(r"\b([a-z]+):\d{4}\b", uncommented))


@pytest.mark.parametrize("path", sorted(set(MOUNTED) - MADE))
def test_mounted_paths_exist_in_the_checkout(path: str):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(
    "path",
    ["ops/prometheus/prometheus.yml", "ops/grafana/provisioning/datasources/prometheus.yml"],
)
def test_services_reference_only_existing_services(path: str):
    assert list_named_hosts(path)
    assert list_named_hosts(path) <= SERVICES


def test_grafana_dashboard_is_mounted_at_provisioned_path():
    provider = ROOT / "ops" / "grafana" / "provisioning" / "dashboards" / "qos-oracle.yml"
    (folder,) = re.findall(r"path: (\S+)", provider.read_text("utf-8"))
    assert f"./ops/grafana/qos-oracle.json:{folder}/qos-oracle.json:ro" in COMPOSE


def get_service_settings(name: str) -> str:
    """Return the settings of a service."""
    (body,) = re.findall(rf"^  {name}:\n((?:    .*\n|\n|  #.*\n)+)", COMPOSE, re.MULTILINE)
    return str(body)


def test_serve_service_publishes_its_listening_port():
    serve = get_service_settings("serve")
    (port,) = re.findall(r'QOS_ORACLE_API__PORT: "(\d+)"', serve)

    assert "command: [serve]" in serve
    assert f'- "127.0.0.1:{port}:{port}"' in serve
    assert f"http://127.0.0.1:{port}/v1/network" in serve
    # Only the daemon has keys.
    assert "/keys" not in serve
    assert "/keys" in get_service_settings("daemon")


def test_service_environment_contains_valid_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    config = tmp_path / "config.toml"
    config.write_text(
        '[chain]\nid = 1\nendpoints = ["http://127.0.0.1:1"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "0x{1:040x}" }}\n',
        "utf-8",
    )
    config.chmod(0o600)
    variables = dict(
        variable
        for text in FILES.values()
        for variable in re.findall(r'(QOS_ORACLE_[A-Z]+__[A-Z_]+)[:=] ?"?([^\s"]+)', text)
    )
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    api = read_config(config).api
    assert (api.host, api.port) == ("0.0.0.0", 8090)  # noqa: S104 - in its container
    assert read_config(config).database.url.startswith("postgresql")


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_service_is_sandboxed_and_has_memory_and_cpu_limits(service: str):
    body = get_service_settings(service)
    assert "    <<: *contained\n" in body
    assert re.search(r"^    mem_limit: \d+[mg]$", body, re.MULTILINE)
    assert re.search(r"^    cpus: \d\.\d$", body, re.MULTILINE)
    # No service overrides the settings of the anchor.
    assert not re.search(r"read_only: false|cap_add|privileged: true", body)


def test_sandboxed_service_is_read_only_without_capabilities():
    (anchor,) = re.findall(r"^x-contained: &contained\n((?:  .*\n)+)", COMPOSE, re.MULTILINE)
    assert {line.strip() for line in anchor.splitlines()} >= {
        "read_only: true",
        "cap_drop: [ALL]",
        'security_opt: ["no-new-privileges:true"]',
        "pids_limit: 256",
    }


def test_every_image_is_pinned_by_digest():
    assert list_unpinned_images() == []
