"""Builds the software bill of materials (SBOM) of a release, in CycloneDX 1.6.

The SBOM depends only on the committed pins, the npm lock file and the wheel, so a release has the
same bytes wherever it is made. It lists every package that is installed on any platform, with the
hashes that pip and npm check. The property `environment marker` shows on which platforms a package
is needed.
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from release.constraints import get_requirements_by_file, load_project, parse_package_names
from release.pins import FOLDER, ROOT, Pin, normalize_name, read_pins

# a random namespace, used only here
_UUID_NAMESPACE = uuid.UUID("6f1b0d5e-9a3c-5d1f-8f0e-3a5c2b7e4d10")
_NPM_KINDS = {"sha512": "SHA-512"}


def build_sbom(wheel: Path, epoch: int) -> str:
    """Return the SBOM of a wheel as JSON; `epoch` is the time of the commit in Unix seconds."""
    name, version = wheel.name.split("-")[:2]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pins = read_pins(FOLDER / "run.txt")
    npm_packages = _list_npm_packages(json.loads((ROOT / "package-lock.json").read_text("utf-8")))
    product = f"pkg:pypi/{normalize_name(name)}@{version}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_UUID_NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": product,
                "purl": product,
                "name": normalize_name(name),
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [
            *map(_build_python_component, pins),
            *map(_build_npm_component, npm_packages),
        ],
        "dependencies": _build_dependency_graph(product, pins, npm_packages),
    }
    return f"{json.dumps(document, indent=2)}\n"


def _build_python_component(pin: Pin) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": sha256} for sha256 in pin.hashes]
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": pin.purl,
        "purl": pin.purl,
        "name": normalize_name(pin.name),
        "version": pin.version,
        # Each platform has its own wheel, so the hashes belong to files, not to the package.
        "externalReferences": [{"type": "distribution", "url": pin.purl, "hashes": hashes}],
    }
    if pin.marker:
        component["properties"] = [{"name": "environment marker", "value": pin.marker}]
    return component


def _list_npm_packages(lock: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the name and the entry of every package in the lock file."""
    return [
        (path.rpartition("node_modules/")[2], package)
        for path, package in lock["packages"].items()
        if path
    ]


def _build_npm_component(named_package: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    name, package = named_package
    kind, _, digest = package["integrity"].partition("-")
    purl = _build_npm_purl(name, package["version"])
    return {
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "name": name,
        "version": package["version"],
        # npm packages provide a local chain and the compiler; they are not part of the daemon.
        "scope": "optional",
        "hashes": [{"alg": _NPM_KINDS[kind], "content": base64.b64decode(digest).hex()}],
    }


def _build_npm_purl(name: str, version: str) -> str:
    return f"pkg:npm/{name.replace('@', '%40')}@{version}"


def _build_dependency_graph(
    product: str, pins: Sequence[Pin], npm_packages: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the dependency graph.

    The product depends on each npm package on which no other npm package depends.
    """
    purl_by_pin_name = {normalize_name(pin.name): pin.purl for pin in pins}
    dependencies_by_purl: dict[str, set[str]] = {purl: set() for purl in purl_by_pin_name.values()}
    dependencies_by_purl[product] = {
        purl_by_pin_name[name]
        for name in parse_package_names(get_requirements_by_file(load_project())["run"])
    }
    for pin in pins:
        for dependent in pin.dependents:
            dependencies_by_purl[purl_by_pin_name[normalize_name(dependent)]].add(pin.purl)
    purl_by_name = {
        name: _build_npm_purl(name, package["version"]) for name, package in npm_packages
    }
    for name, package in npm_packages:
        dependencies = package.get("dependencies", {})
        dependencies_by_purl[purl_by_name[name]] = {
            purl_by_name[name] for name in dependencies if name in purl_by_name
        }
    npm_dependency_purls = {
        purl for dependencies in dependencies_by_purl.values() for purl in dependencies
    }
    dependencies_by_purl[product] |= set(purl_by_name.values()) - npm_dependency_purls
    return [
        {"ref": ref, "dependsOn": sorted(dependencies_by_purl[ref])}
        for ref in sorted(dependencies_by_purl)
    ]
