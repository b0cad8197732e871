"""Everything that a release contains has an allowed licence, and the release lists it."""

import io
import json
import tarfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

from release.layers import ARCHITECTURE
from release.licenses import (
    is_license_allowed,
    list_debian_packages,
    read_licenses,
    render_third_party,
)
from release.oci import IMAGES, write_image
from release.pins import FOLDER, normalize_name, read_pins
from release.sbom import build_sbom

# Everything that the product installs: its dependencies, and the extras with a lock file.
PINS = {
    normalize_name(pin.name): pin
    for name in ("run", "notify", "otel")
    for pin in read_pins(FOLDER / f"{name}.txt")
}
STATUS = "Package: bash\nVersion: 5.2-1\n\nPackage: python3.11\nVersion: 3.11-6\n"
COPYRIGHT = "Format: 1.0\n\nFiles: *\nLicense: GPL-3+\n text\n\nLicense: BSD-3-clause\n text\n"


@pytest.fixture
def sbom(tmp_path) -> str:
    wheel = tmp_path / "qos_oracle-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    return build_sbom(wheel, 1_760_000_000)


@pytest.fixture
def image(tmp_path) -> Path:
    layer = tmp_path / "base.tar"
    files = {
        "./var/lib/dpkg/status": STATUS,
        "./usr/share/doc/bash/copyright": COPYRIGHT,
        # Not machine-readable.
        "./usr/share/doc/python3.11/copyright": "\nLicense: Permission is granted\n",
    }
    with tarfile.open(layer, "w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    path = write_image(IMAGES[0], [layer], tmp_path, 1_760_000_000)
    assert path.name.endswith(f"-{ARCHITECTURE}.oci.tar")
    return path


def test_every_locked_python_package_has_a_licence():
    assert set(read_licenses()["pypi"]) == set(PINS)


def test_listed_licences_match_installed_packages():
    """Compare the packages whose metadata has an expression; some are for other platforms."""
    stated_by_name = {}
    for name, pin in PINS.items():
        with suppress(PackageNotFoundError):
            if expression := metadata(pin.name)["License-Expression"]:
                stated_by_name[name] = expression
    listed = read_licenses()["pypi"]
    assert stated_by_name
    assert stated_by_name == {name: listed[name] for name in stated_by_name}


def test_every_sbom_component_has_an_allowed_licence(sbom):
    license_by_purl = {
        part["purl"]: part["licenses"][0]["expression"] for part in json.loads(sbom)["components"]
    }
    forbidden = {
        purl: name for purl, name in license_by_purl.items() if not is_license_allowed(name)
    }
    assert forbidden == {}
    # The bundle of the API's page contains packages of its own.
    assert {purl.partition("@")[0] for purl in license_by_purl} >= {
        *("pkg:npm/htmx.org", "pkg:npm/uplot", "pkg:npm/redoc", "pkg:npm/mobx"),
    }


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("", False),
    ],
)
def test_licence_expression_is_allowed_if_one_alternative_is(expression, allowed):
    assert is_license_allowed(expression) == allowed


def test_third_party_list_contains_components_and_debian_packages(sbom, image):
    text = render_third_party(sbom, list_debian_packages(image))
    for part in json.loads(sbom)["components"]:
        row = (part["name"], part["version"], part["licenses"][0]["expression"])
        assert f"| {' | '.join(row)} |" in text
    assert "| bash | 5.2-1 | BSD-3-clause, GPL-3+ |" in text
    assert "| python3.11 | 3.11-6 | in its copyright file |" in text
