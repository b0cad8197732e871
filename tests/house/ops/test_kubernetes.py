"""The Kubernetes manifests fit the program: its commands, ports, paths, settings and user."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.gateway_app import GATEWAY_PATHS
from gateway.gateway_config import TOKEN_VARIABLE, GatewaySection
from oracle import __version__
from oracle.cli.main import run
from oracle.daemon.config.listener_section import ApiSection, WebSection
from oracle.daemon.config.loader import Config
from release.layers import ENVIRONMENT, HOME, USER

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/how-to/run-on-kubernetes.md"
# The paths that the probes and Prometheus request, by the command that serves them.
PATHS = {
    "run": ["/livez", "/readyz", "/metrics"],
    "serve": ["/v1/network"],
    "gateway": [path.partition(" ")[2] for path in GATEWAY_PATHS],
}
PORTS = {
    "run": WebSection().port,
    "serve": ApiSection().port,
    "gateway": GatewaySection().port,
}


@pytest.fixture(scope="module")
def manifests(tmp_path_factory) -> list[dict[str, Any]]:
    """Return what `service init --kubernetes` writes."""
    folder = tmp_path_factory.mktemp("kubernetes")
    assert run(["service", "init", str(folder), "--kubernetes"]) == 0
    return [
        manifest
        for path in sorted(folder.glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.read_text("utf-8"))
    ]


@pytest.fixture
def pods(manifests) -> list[dict[str, Any]]:
    return [pod for manifest in manifests for pod in iter_pods(manifest)]


@pytest.fixture
def containers(pods) -> list[dict[str, Any]]:
    return [
        container
        for pod in pods
        for container in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    ]


def iter_pods(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the pod template of a workload, with its labels."""
    spec = manifest.get("spec", {})
    if "jobTemplate" in spec:
        spec = spec["jobTemplate"]["spec"]
    if "template" in spec:
        yield spec["template"]


def test_containers_run_images_of_this_version(containers):
    images = {container["image"] for container in containers}
    assert images == {f"qos-oracle:{__version__}", f"qos-oracle-gateway:{__version__}"}


def test_pods_meet_the_restricted_pod_security_standard(pods, containers):
    for pod in pods:
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        # A Service named qos-oracle would add variables with the prefix of the settings.
        assert spec["enableServiceLinks"] is False
        security = spec["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, USER)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_probes_use_paths_and_ports_of_container_command(pods):
    served = set()
    for container in [container for pod in pods for container in pod["spec"]["containers"]]:
        command = container["args"][0]
        if command == "migrate":
            continue
        served.add(command)
        (port,) = container["ports"]
        assert port["containerPort"] == PORTS[command]
        for kind in ("livenessProbe", "startupProbe", "readinessProbe"):
            ((_, action),) = [
                item for item in container[kind].items() if item[0] in ("httpGet", "tcpSocket")
            ]
            assert action["port"] == port["name"]
            assert action.get("path", PATHS[command][0]) in PATHS[command]
    assert served == set(PORTS)


def test_environment_variables_are_settings_from_documented_secrets(containers):
    page = PAGE.read_text("utf-8")
    for variable in [variable for item in containers for variable in item.get("env", ())]:
        if variable["name"] != TOKEN_VARIABLE:
            section, _, setting = variable["name"].removeprefix("QOS_ORACLE_").partition("__")
            model = Config.model_fields[section.lower()].annotation
            assert setting.lower() in getattr(model, "model_fields", {})
        if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
            assert f"create secret generic {reference['name']}" in page
            assert f"{reference['key']}=" in page


def test_mounted_secrets_are_copied_to_image_paths(pods):
    page = PAGE.read_text("utf-8")
    for spec in [pod["spec"] for pod in pods]:
        (copying,), (container,) = spec["initContainers"], spec["containers"]
        written = {
            mount["name"]: mount["mountPath"]
            for mount in copying["volumeMounts"]
            if not mount.get("readOnly")
        }
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert written.items() <= mounted.items()
        assert Path(ENVIRONMENT["QOS_ORACLE_CONFIG"]).parent == Path(written["config"])
        copies = re.findall(r"install -m 600 (\S+)/\* (\S+)/", " ".join(copying["command"]))
        assert sorted(target for _, target in copies) == sorted(written.values())
        for volume in spec["volumes"]:
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                assert f"create secret generic {name}" in page
                # A Secret's mount is read-only, and no setting could make its files private.
                assert volume["name"] not in mounted


def test_services_and_policies_select_existing_pods(manifests, pods):
    labels = [pod["metadata"]["labels"] for pod in pods if "metadata" in pod]
    names = {
        port["name"]
        for pod in pods
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    }
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "Service":
            assert spec["selector"] in labels
            assert {port["targetPort"] for port in spec["ports"]} <= names
        elif manifest["kind"] in ("NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor"):
            selector = spec.get("selector") or spec["podSelector"]
            assert selector["matchLabels"] in labels
    (monitor,) = [item for item in manifests if item["kind"] == "ServiceMonitor"]
    assert all(endpoint["path"] in PATHS["run"] for endpoint in monitor["spec"]["endpoints"])


def test_both_daemons_wait_for_the_lease_and_share_no_volume(manifests):
    (daemon,) = [item for item in manifests if item["kind"] == "StatefulSet"]
    spec = daemon["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["args"] == ["run", "--standby"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    (claim,) = spec["volumeClaimTemplates"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == f"/{HOME}"
