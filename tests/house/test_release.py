"""A release lists its content, reproducibly; images are named by digest."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from devnet.toolchain import find_or_install_anvil
from oracle import __version__
from release import layers
from release.__main__ import render_release_notes
from release.images import iter_image_references, list_unpinned_images, pin_images
from release.layers import HOME
from release.oci import IMAGES, main as build_images_of_commit, write_image
from release.pins import FOLDER, read_pins
from release.sbom import build_sbom
from release.statements import build_provenance, format_checksum_lines, sign_file
from release.try_images import extract_all_layers

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


def test_only_images_from_other_registries_are_listed(checkout):
    assert [image for _, image in iter_image_references(checkout)] == [
        "python:3.11-slim",
        "node:22",
        "postgres:18",
    ]
    assert list_unpinned_images(checkout) == ["node:22", "postgres:18", "python:3.11-slim"]


def test_digest_from_the_registry_is_appended_to_the_tag(checkout, monkeypatch):
    docker_that(f"echo {DIGEST}", checkout, monkeypatch)
    assert pin_images(checkout) == []
    assert f"FROM node:22@{DIGEST} AS chain" in (checkout / "Dockerfile").read_text("utf-8")
    assert list_unpinned_images(checkout) == []


def test_unreachable_registry_changes_nothing(checkout, monkeypatch):
    before = (checkout / "Dockerfile").read_text("utf-8")
    docker_that(f"echo {DIGEST}; exit 1", checkout, monkeypatch)
    assert pin_images(checkout) == ["node:22", "postgres:18", "python:3.11-slim"]
    assert (checkout / "Dockerfile").read_text("utf-8") == before


def test_image_archive_is_reproducible_with_correct_digests(tmp_path):
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.addfile(tarfile.TarInfo("etc/empty"))
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        contents.append(write_image(IMAGES[0], [layer], folder, 1_760_000_000).read_bytes())
    assert contents[0] == contents[1]

    with tarfile.open(fileobj=io.BytesIO(contents[0])) as archive:
        files = {
            member.name: (archive.extractfile(member) or io.BytesIO()).read()
            for member in archive
            if member.isreg()
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


def test_image_archive_contains_folders_for_rootless_skopeo(tmp_path):
    with tarfile.open(write_image(IMAGES[0], [], tmp_path, 1_760_000_000)) as archive:
        names = archive.getnames()
    assert names[:2] == ["blobs", "blobs/sha256"]


def test_podman_and_docker_load_the_image_under_its_compose_name(tmp_path):
    """Podman and containerd read the annotation of index.json, Docker's own store RepoTags."""
    with tarfile.open(write_image(IMAGES[0], [], tmp_path, 1_760_000_000)) as archive:
        files = {
            name: (archive.extractfile(name) or io.BytesIO()).read()
            for name in ("index.json", "manifest.json")
        }
    (reference,) = json.loads(files["index.json"])["manifests"]
    (docker,) = json.loads(files["manifest.json"])
    tag = f"qos-oracle:{__version__}"
    assert reference["annotations"]["io.containerd.image.name"] == f"docker.io/library/{tag}"
    assert docker["RepoTags"] == [tag]


def test_release_notes_start_with_documentation_commands():
    notes = render_release_notes("## [0.1.0]\n")
    assert f"tar -xzf qos-oracle-docs-{__version__}.tar.gz\n" in notes
    assert f"--directory qos-oracle-docs-{__version__} 8000\n" in notes
    assert notes.endswith("\n\n## [0.1.0]\n")


def test_missing_mmdebstrap_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"^no container images: mmdebstrap is not installed"):
        build_images_of_commit([])


def test_layers_of_largest_image_are_extracted_in_order(tmp_path):
    paths = write_layers(tmp_path, 3)
    for image in IMAGES:
        write_image(image, paths, tmp_path, 1_760_000_000)

    extracted = extract_all_layers(tmp_path, tmp_path / "extracted")

    assert [gzip.decompress(path.read_bytes()) for path in extracted] == [
        path.read_bytes() for path in paths
    ]


def test_images_with_different_layers_are_rejected(tmp_path):
    *others, last = IMAGES
    for image in others:
        write_image(image, write_layers(tmp_path, 2), tmp_path, 1_760_000_000)
    write_image(last, write_layers(tmp_path / "other", 3), tmp_path, 1_760_000_000)

    with pytest.raises(SystemExit, match="are not those of the other images"):
        extract_all_layers(tmp_path, tmp_path / "extracted")


def test_missing_image_is_rejected(tmp_path):
    write_image(IMAGES[0], write_layers(tmp_path, 2), tmp_path, 1_760_000_000)

    with pytest.raises(SystemExit, match=f"0 archives of the image {IMAGES[1].name}"):
        extract_all_layers(tmp_path, tmp_path / "extracted")


def write_layers(folder: Path, count: int) -> list[Path]:
    """Write layers with one file each, whose name contains the folder's name."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"layer{number}.tar" for number in range(count)]
    for path in paths:
        with tarfile.open(path, "w") as archive:
            archive.addfile(tarfile.TarInfo(f"{folder.name} {path.name}"))
    return paths


@pytest.mark.slow
def test_container_image_programs_also_start_outside_a_container(monkeypatch, tmp_path):
    """`make oci` runs the same commands in the images, which takes too long for CI."""

    def build_command(_root: Path, volume: Path, program: str, *arguments: str) -> list[str]:
        programs = {
            "anvil": [str(find_or_install_anvil())],
            "qos-oracle": [sys.executable, "-m", "oracle"],
        }
        return [
            *programs[program],
            *(argument.replace(f"/{HOME}", str(volume)) for argument in arguments),
        ]

    monkeypatch.setattr(layers, "_build_start_command", build_command)
    monkeypatch.setattr(layers, "ENVIRONMENT", {**layers.ENVIRONMENT, "HOME": str(tmp_path)})
    monkeypatch.setattr(os, "chown", lambda *_: None)
    layers.check_programs_start([], tmp_path / "container")


def test_provenance_names_the_commit_and_the_hash_of_every_file(wheel):
    provenance = json.loads(build_provenance([wheel], "ab" * 20, ["deb SOURCE bookworm main"]))
    parameters = provenance["predicate"]["buildDefinition"]["externalParameters"]
    assert parameters["debian"] == ["deb SOURCE bookworm main"]
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert provenance["subject"] == [{"name": wheel.name, "digest": {"sha256": digest}}]
    source, *locks = provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "ab" * 20}
    assert {lock["name"] for lock in locks} >= {"constraints/build.txt", "package-lock.json"}


@pytest.fixture
def signed_release(tmp_path, wheel):
    """Return the folder of a release: a wheel, its signed hash, and the maintainers' keys."""
    if shutil.which("ssh-keygen") is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ:
        pytest.skip("ssh-keygen is not installed; CI has it")
    (wheel.parent / "SHA256SUMS").write_text(f"{format_checksum_lines([wheel])[0]}\n", "utf-8")
    key = create_ssh_key(tmp_path / "key")
    sign_file(wheel.parent / "SHA256SUMS", key)
    public_key = key.with_suffix(".pub").read_text("utf-8")
    options = 'namespaces="qos-oracle-release"'
    (tmp_path / "allowed_signers").write_text(
        f"release@qos-oracle {options} {public_key}", "utf-8"
    )
    return tmp_path


def create_ssh_key(path: Path) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def check_release(folder: Path) -> int:
    """Run the commands of the documentation in the folder of a release."""
    page = (FOLDER.parent / "docs/how-to/release.md").read_text("utf-8")
    section = page.partition("## Check a published release")[2]
    commands = [line for line in section.splitlines() if line.startswith("    ")][:2]
    assert commands[0].lstrip().startswith("ssh-keygen -Y verify")
    assert commands[1].lstrip().startswith("sha256sum --check")
    script = "\n".join(["set -e", *commands])
    return subprocess.run(["/bin/sh", "-c", script], cwd=folder, check=False).returncode


def test_documented_commands_accept_a_signed_release(signed_release):
    assert check_release(signed_release) == 0


def test_changed_file_of_a_signed_release_is_rejected(signed_release, wheel):
    wheel.write_bytes(b"another wheel")
    assert check_release(signed_release) != 0


def test_hashes_changed_after_signing_are_rejected(signed_release, wheel):
    wheel.write_bytes(b"another wheel")
    (signed_release / "SHA256SUMS").write_text(f"{format_checksum_lines([wheel])[0]}\n", "utf-8")
    assert check_release(signed_release) != 0


def test_release_signed_with_another_key_is_rejected(signed_release, tmp_path):
    sign_file(signed_release / "SHA256SUMS", create_ssh_key(tmp_path / "foreign key"))
    assert check_release(signed_release) != 0
