"""Writes THIRD_PARTY.md with the licences of everything in a release.

The licences of packages are in ops/release/licenses.toml and in npm's lock files. The licences of
Debian's packages are read from the copyright files in the images.
"""

import json
import re
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from release.pins import ROOT

# Licences of unmodified, separate packages that may be distributed with Apache-2.0 software.
ALLOWED = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC"),
        *("LGPL-3.0-only", "LicenseRef-Public-Domain", "MIT", "MPL-2.0", "PSF-2.0", "Python-2.0"),
    }
)
_FILE = ROOT / "ops/release/licenses.toml"
_STATUS = "var/lib/dpkg/status"
_LISTED = re.compile(r"(\./)?(var/lib/dpkg/status|usr/share/doc/[^/]+/copyright)")
_STATUS_FIELD = re.compile(r"^(Package|Version): (.+)$", re.MULTILINE)
_LICENSE_LINE = re.compile(r"^License: *(\S.*)$", re.MULTILINE)
_HEADER = """\
# Third-party software

The wheel contains the web libraries, and installs the Python packages. The container images
contain the Python packages with their licence files in `/opt/qos-oracle/lib/*.dist-info`, and
Debian's packages with theirs in `/usr/share/doc/*/copyright`; `qos-oracle-devnet` also contains
Anvil. All of them are unmodified. Debian publishes the sources of its packages (`apt-get source
NAME=VERSION`, snapshot.debian.org).
"""
# Headings by kind and scope of a component in the SBOM.
_TITLES = {
    ("pkg:pypi", "required"): "Python packages",
    ("pkg:npm", "required"): "Web libraries",
    ("pkg:npm", "optional"): "Local chain and compiler; only Anvil is in an image",
}


@cache
def read_licenses() -> Mapping[str, Mapping[str, str]]:
    """Read the SPDX expression of each package, for `pypi` and `npm`."""
    return tomllib.loads(_FILE.read_text("utf-8"))


def get_npm_license(name: str, package: Mapping[str, Any]) -> str:
    """Return the SPDX expression of a package in an npm lock file.

    Raises:
        KeyError: neither the lock file nor licenses.toml has the licence.
    """
    corrected_license = read_licenses()["npm"].get(name)
    return (
        corrected_license if corrected_license is not None else str(package["license"]).strip("()")
    )


def is_license_allowed(expression: str) -> bool:
    """Return whether an SPDX expression is allowed.

    All parts of it, or of one of its alternatives, must be allowed. Expressions with parentheses
    or exceptions are not supported and count as not allowed.
    """
    return any(
        all(part in ALLOWED for part in alternative.split(" AND "))
        for alternative in expression.split(" OR ")
    )


def list_debian_packages(image: Path) -> list[tuple[str, str, str]]:
    """List name, version and licences of the Debian packages in a base layer.

    The layer belongs to an image. The licences are the short names in a machine-readable copyright
    file (DEP 5). For other copyright files, the text only refers to the file.
    """
    with tarfile.open(fileobj=BytesIO(_read_base_layer(image)), mode="r:gz") as layer:
        content_by_path = {
            member.name.removeprefix("./"): _read_member(layer, member)
            for member in layer
            if member.isreg() and _LISTED.fullmatch(member.name)
        }
    packages = []
    for paragraph in content_by_path[_STATUS].decode().strip().split("\n\n"):
        fields = dict(_STATUS_FIELD.findall(paragraph))
        copyright_file = content_by_path.get(f"usr/share/doc/{fields['Package']}/copyright", b"")
        copyright_text = copyright_file.decode("utf-8", "replace")
        license_names = (
            sorted(set(_LICENSE_LINE.findall(copyright_text)))
            if copyright_text.startswith("Format:")
            else []
        )
        licenses = ", ".join(license_names) or "in its copyright file"
        packages.append((fields["Package"], fields["Version"], licenses))
    return sorted(packages)


def _read_base_layer(image: Path) -> bytes:
    with tarfile.open(image) as archive:
        (manifest,) = json.loads(_read_member(archive, "manifest.json"))
        return _read_member(archive, manifest["Layers"][0])


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo | str) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        raise ValueError(f"{member}: not a file")
    return file.read()


def render_third_party(sbom: str, debian_packages: Sequence[tuple[str, str, str]]) -> str:
    """Render THIRD_PARTY.md with name, version and licence of everything in the release."""
    rows_by_title: dict[str, list[tuple[str, str, str]]] = {
        title: [] for title in _TITLES.values()
    }
    for part in json.loads(sbom)["components"]:
        component_kind = (part["purl"].partition("/")[0], part.get("scope", "required"))
        license_expression = part["licenses"][0]["expression"]
        rows_by_title[_TITLES[component_kind]].append(
            (part["name"], part["version"], license_expression)
        )
    rows_by_title["Debian packages of the images"] = list(debian_packages)
    return _HEADER + "".join(
        f"\n## {title}\n\n| package | version | licence |\n|---|---|---|\n"
        + "".join(f"| {' | '.join(row)} |\n" for row in rows)
        for title, rows in rows_by_title.items()
        if rows
    )
