"""Builds a release's software bill of materials (SBOM) in CycloneDX 1.6.

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

from release.constraints import get_requirements_by_file, parse_package_names, read_project
from release.licenses import get_npm_license, read_licenses
from release.pins import FOLDER, ROOT, Pin, normalize_name, read_pins

# This UUID is random. It is used only here.
_UUID_NAMESPACE = uuid.UUID("6f1b0d5e-9a3c-5d1f-8f0e-3a5c2b7e4d10")
_NpmPackage = tuple[str, Mapping[str, Any]]
_NPM_KINDS = {"sha512": "SHA-512"}


def build_sbom(wheel: Path, epoch: int) -> str:
    """Build the SBOM of a wheel as JSON.

    `epoch` is the time of the commit in unix seconds.
    """
    name, version = wheel.name.split("-")[:2]
    wheel_digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pins = read_pins(FOLDER / "run.txt")
    toolchain_packages = _read_npm_packages("package-lock.json")
    web_packages = _read_npm_packages("ops/pages/package-lock.json")
    product_purl = f"pkg:pypi/{normalize_name(name)}@{version}"
    sbom_document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_UUID_NAMESPACE, wheel_digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": product_purl,
                "purl": product_purl,
                "name": normalize_name(name),
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": wheel_digest}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [
            *map(_build_python_component, pins),
            *(_build_npm_component(*package, is_shipped=False) for package in toolchain_packages),
            *(_build_npm_component(*package, is_shipped=True) for package in web_packages),
        ],
        "dependencies": _build_dependency_graph(
            product_purl, pins, [toolchain_packages, web_packages]
        ),
    }
    return f"{json.dumps(sbom_document, indent=2)}\n"


def _build_python_component(pin: Pin) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": sha256} for sha256 in pin.hashes]
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": pin.purl,
        "purl": pin.purl,
        "name": normalize_name(pin.name),
        "version": pin.version,
        "licenses": [{"expression": read_licenses()["pypi"][normalize_name(pin.name)]}],
        # Hashes belong to files instead of packages, because a package has a wheel per platform.
        "externalReferences": [{"type": "distribution", "url": pin.purl, "hashes": hashes}],
    }
    if pin.marker:
        component["properties"] = [{"name": "environment marker", "value": pin.marker}]
    return component


def _read_npm_packages(lock_file: str) -> list[_NpmPackage]:
    """Read name and entry of every package in a lock file."""
    lock_document = json.loads((ROOT / lock_file).read_text("utf-8"))
    return [
        (path.rpartition("node_modules/")[2], package)
        for path, package in lock_document["packages"].items()
        if path
    ]


def _build_npm_component(
    name: str, package: Mapping[str, Any], *, is_shipped: bool
) -> dict[str, Any]:
    kind, _, digest = package["integrity"].partition("-")
    purl = _build_npm_purl(name, package["version"])
    return {
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "name": name,
        "version": package["version"],
        # The libraries of the web pages are part of the product. The other packages only provide a
        # local chain and the compiler.
        "scope": "required" if is_shipped else "optional",
        "licenses": [{"expression": get_npm_license(name, package)}],
        "hashes": [{"alg": _NPM_KINDS[kind], "content": base64.b64decode(digest).hex()}],
    }


def _build_npm_purl(name: str, version: str) -> str:
    return f"pkg:npm/{name.replace('@', '%40')}@{version}"


def _build_dependency_graph(
    product: str, pins: Sequence[Pin], npm_lock_files: Sequence[Sequence[_NpmPackage]]
) -> list[dict[str, Any]]:
    """Build the dependency graph.

    If no other package of a lock file depends on an npm package, the product depends on it.
    """
    purl_by_pin_name = {normalize_name(pin.name): pin.purl for pin in pins}
    dependencies_by_purl: dict[str, set[str]] = {purl: set() for purl in purl_by_pin_name.values()}
    dependencies_by_purl[product] = {
        purl_by_pin_name[name]
        for name in parse_package_names(get_requirements_by_file(read_project())["run"])
    }
    for pin in pins:
        for dependent in pin.dependents:
            dependencies_by_purl[purl_by_pin_name[normalize_name(dependent)]].add(pin.purl)
    for npm_packages in npm_lock_files:
        npm_dependencies = _list_npm_dependencies(npm_packages)
        dependencies_by_purl |= npm_dependencies
        required_purls = {purl for purls in npm_dependencies.values() for purl in purls}
        dependencies_by_purl[product] |= set(npm_dependencies) - required_purls
    return [
        {"ref": purl, "dependsOn": sorted(dependencies_by_purl[purl])}
        for purl in sorted(dependencies_by_purl)
    ]


def _list_npm_dependencies(npm_packages: Sequence[_NpmPackage]) -> dict[str, set[str]]:
    """Return the dependencies of each package in one lock file, by purl."""
    purl_by_name = {
        name: _build_npm_purl(name, package["version"]) for name, package in npm_packages
    }
    return {
        purl_by_name[name]: {
            purl_by_name[dependency]
            for dependency in package.get("dependencies", {})
            if dependency in purl_by_name
        }
        for name, package in npm_packages
    }
