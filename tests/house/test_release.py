"""A release lists its content, reproducibly; images are named by digest."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from release.images import iter_images, list_unpinned_images, pin_images
from release.oci import write_image
from release.pins import FOLDER, read_pins
from release.sbom import build_sbom
from release.statements import build_hash_lines, build_provenance

DIGEST = "sha256:" + 64 * "4"


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "qos_oracle-0.1.0-py3-none-any.whl"
    path.write_bytes(b"a wheel")
    return path


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "Dockerfile").write_text(
        "FROM python:3.11-slim AS build\nFROM node:22 AS chain\nFROM build\n", "utf-8"
    )
    (tmp_path / "compose.yaml").write_text(
        "    image: postgres:18\n    image: qos-oracle:dev\n", "utf-8"
    )
    return tmp_path


def docker_that(says: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "docker").write_text(f"#!/bin/sh\n{says}\n", "utf-8")
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_sbom_lists_every_pin_with_its_hashes(wheel):
    sbom = json.loads(build_sbom(wheel, 1_760_000_000))
    named = {
        part["purl"]: {
            hash_entry["content"] for hash_entry in part["externalReferences"][0]["hashes"]
        }
        for part in sbom["components"]
        if part["purl"].startswith("pkg:pypi/")
    }
    assert named == {pin.purl: set(pin.hashes) for pin in read_pins(FOLDER / "run.txt")}


def test_every_sbom_package_is_required(wheel):
    sbom = json.loads(build_sbom(wheel, 1_760_000_000))
    references = {part["bom-ref"] for part in sbom["components"]}
    product = sbom["metadata"]["component"]["bom-ref"]
    required_references = {
        need for dependency in sbom["dependencies"] for need in dependency["dependsOn"]
    }
    assert {dependency["ref"] for dependency in sbom["dependencies"]} == {*references, product}
    assert required_references == references


def test_sbom_of_wheel_is_reproducible(wheel):
    assert build_sbom(wheel, 1_760_000_000) == build_sbom(wheel, 1_760_000_000)
    before = json.loads(build_sbom(wheel, 1_760_000_000))["serialNumber"]
    wheel.write_bytes(b"another wheel")
    assert json.loads(build_sbom(wheel, 1_760_000_000))["serialNumber"] != before


def test_external_images_are_listed_but_own_build_stages_are_not(checkout):
    assert [image for _, image in iter_images(checkout)] == [
        "python:3.11-slim",
        "node:22",
        "postgres:18",
    ]
    assert list_unpinned_images(checkout) == ["node:22", "postgres:18", "python:3.11-slim"]


def test_digest_from_registry_is_appended_to_tag(checkout, monkeypatch):
    docker_that(f"echo {DIGEST}", checkout, monkeypatch)
    assert pin_images(checkout) == []
    assert f"FROM node:22@{DIGEST} AS chain" in (checkout / "Dockerfile").read_text("utf-8")
    assert list_unpinned_images(checkout) == []


def test_unreachable_registry_changes_nothing(checkout, monkeypatch):
    before = (checkout / "Dockerfile").read_text("utf-8")
    docker_that(f"echo {DIGEST}; exit 1", checkout, monkeypatch)
    assert pin_images(checkout) == ["node:22", "postgres:18", "python:3.11-slim"]
    assert (checkout / "Dockerfile").read_text("utf-8") == before


def test_image_archive_is_reproducible_and_every_digest_is_that_of_its_blob(tmp_path):
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.addfile(tarfile.TarInfo("etc/empty"))
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        contents.append(write_image("qos-oracle", [layer], folder, 1_760_000_000).read_bytes())
    assert contents[0] == contents[1]

    with tarfile.open(fileobj=io.BytesIO(contents[0])) as archive:
        files = {
            name: (archive.extractfile(name) or io.BytesIO()).read() for name in archive.getnames()
        }
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    blobs = {
        name.rpartition("/")[2]: blob for name, blob in files.items() if name.startswith("blobs/")
    }
    assert all(hashlib.sha256(blob).hexdigest() == digest for digest, blob in blobs.items())
    (reference,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blobs[reference["digest"].partition(":")[2]])
    config = json.loads(blobs[manifest["config"]["digest"].partition(":")[2]])
    (packed,) = (blobs[entry["digest"].partition(":")[2]] for entry in manifest["layers"])
    assert gzip.decompress(packed) == layer.read_bytes()
    assert config["rootfs"]["diff_ids"] == [
        f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"
    ]
    assert config["config"]["User"] == "10001:10001"


def test_provenance_names_commit_and_hash_of_every_file(wheel):
    provenance = json.loads(build_provenance([wheel], "ab" * 20))
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert provenance["subject"] == [{"name": wheel.name, "digest": {"sha256": digest}}]
    source, *locks = provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "ab" * 20}
    assert {lock["name"] for lock in locks} >= {"constraints/build.txt", "package-lock.json"}


def test_hash_lines_are_accepted_by_sha256sum_until_a_file_changes(tmp_path, wheel):
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "SHA256SUMS").write_text(
        "\n".join([*build_hash_lines(folder, [wheel]), ""]), "utf-8"
    )
    check = ["sha256sum", "--check", "--status", "SHA256SUMS"]
    assert subprocess.run(check, cwd=folder, check=False).returncode == 0
    wheel.write_bytes(b"another wheel")
    assert subprocess.run(check, cwd=folder, check=False).returncode == 1
