"""Builds container images without Docker or a registry: `make oci` (docs/how-to/release.md).

The base is made of Debian's packages by mmdebstrap, the second layer contains the wheels of
constraints/run.txt and of this commit. Both are built twice and compared; then the image is
unpacked, and its program is run in it without root.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bootstrap import BY_HASH
from release.constraints import load_project
from release.pins import ROOT
from release.wheels import (
    build_wheel,
    extract_sources,
    get_commit_hash,
    get_commit_time,
    is_clean,
    sha256,
)

DIST = ROOT / "dist"
_SUITE, _PYTHON, _ARCHITECTURE = "bookworm", (3, 11), "amd64"
_USER = 10001
_HOME, _LIBRARIES = "var/lib/qos-oracle", "opt/qos-oracle/lib"
_PROGRAM = """\
#!/usr/bin/python3
from oracle.cli.main import main

main()
"""
# Command, port and path of the health check of each image; all have the same layers.
_IMAGES = {
    "qos-oracle": ("run", 8080, "livez"),
    "qos-oracle-gateway": ("gateway", 8091, "healthz"),
}
_MEDIA_TYPE = "application/vnd.oci.image"


def main(arguments: Sequence[str]) -> int:
    """Build the images twice, compare, start them, and write them to dist/."""
    obstacle = _find_obstacle()
    if obstacle is not None:
        _print_line(f"skipped: {obstacle}")
        return 0
    if not is_clean():
        _print_line("the checkout has uncommitted changes; commit or remove them")
        return 1
    epoch = get_commit_time()
    with TemporaryDirectory() as name:
        builds = []
        for folder in (Path(name) / "first", Path(name) / "a second"):
            checkout = extract_sources(folder)
            base = build_base(folder.with_name(f"{folder.name} base.tar"), epoch, arguments)
            application = build_application(
                checkout, folder.with_name(f"{folder.name} app"), epoch
            )
            builds.append((base, application))
        for first, second in zip(*builds, strict=True):
            if sha256(first) != sha256(second):
                _print_line(f"two builds of {first.name} differ")
                return 1
        check_start(builds[0], Path(name) / "root")
        DIST.mkdir(exist_ok=True)
        images = [write_image(image, builds[0], DIST, epoch) for image in _IMAGES]
    lines = [f"{sha256(image)}  {image.name}\n" for image in images]
    (DIST / "SHA256SUMS.oci").write_text("".join(lines), "utf-8")
    _print_line("".join(lines).rstrip())
    return 0


def _find_obstacle() -> str | None:
    """Return why this machine cannot build the images, or None."""
    if shutil.which("mmdebstrap") is None:
        return "mmdebstrap is not installed (Debian's package of the same name)"
    if os.geteuid() != 0:
        return "images are built as root, because their files belong to root"
    if sys.version_info[:2] != _PYTHON or os.uname().machine != "x86_64":
        return "images are built on x86-64 with Python 3.11, the version in Debian 12"
    return None


def build_base(path: Path, epoch: int, sources: Sequence[str]) -> Path:
    """Build the base layer: Debian's essential packages, Python and certificates.

    `sources` are package sources for mmdebstrap, by default deb.debian.org. Only a source
    that never changes (snapshot.debian.org) makes later builds equal, too.

    Raises:
        subprocess.CalledProcessError: mmdebstrap failed; its output is printed.
    """
    excluded = ("doc", "info", "locale", "man")
    command = [
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=essential", "--skip=output/dev"),
        "--include=python3,ca-certificates",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in excluded),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--customize-hook=rm -rf "$1"/var/log/* "$1"/var/cache/* "$1"/var/lib/apt/lists',
        *(_SUITE, str(path), *sources),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - our own command
    return path


def build_application(checkout: Path, folder: Path, epoch: int) -> Path:
    """Build the layer with the pinned packages and the wheels of a checkout.

    Raises:
        subprocess.CalledProcessError: a build or pip failed.
    """
    root, libraries = folder / "root", folder / "root" / _LIBRARIES
    wheels = [
        build_wheel(checkout, folder / "wheel", epoch),
        build_wheel(checkout / "native", folder / "native", epoch),
    ]
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile")
    for options in (
        (*BY_HASH, "--requirement", str(checkout / "constraints/run.txt")),
        ("--no-deps", "--no-index", *map(str, wheels)),
    ):
        command = (*pip, "--target", str(libraries), *options)
        subprocess.run(command, check=True)  # noqa: S603 - our own command
    # Its scripts start with the path of this interpreter; pip records where wheels came from.
    shutil.rmtree(libraries / "bin")
    for record in (*libraries.glob("*.dist-info/direct_url.json"), *libraries.glob("*/RECORD")):
        record.unlink()
    program = root / "usr/local/bin/qos-oracle"
    program.parent.mkdir(parents=True)
    program.write_text(_PROGRAM, "utf-8")
    program.chmod(0o755)
    for name in (_HOME, "etc/qos-oracle"):
        (root / name).mkdir(parents=True)
    layer = folder / "application.tar"
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            _add_to_layer(archive, path, str(path.relative_to(root)), epoch)
    return layer


def _add_to_layer(archive: tarfile.TarFile, path: Path, name: str, epoch: int) -> None:
    """Add a file with fixed times, owner and mode."""
    info = archive.gettarinfo(path, name)
    info.mtime, info.uname, info.gname = epoch, "", ""
    info.uid = info.gid = _USER if name == _HOME else 0
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    if info.isreg():
        with path.open("rb") as file:
            archive.addfile(info, file)
    else:
        archive.addfile(info)


def check_start(layers: Sequence[Path], root: Path) -> None:
    """Unpack the layers and run the program in them, as the image's user.

    Raises:
        subprocess.CalledProcessError: the program failed; its output is printed.
    """
    root.mkdir()
    for layer in layers:
        with tarfile.open(layer) as archive:
            archive.extractall(root, filter="tar")
    # A container runtime mounts its own devices.
    (root / "dev").mkdir(exist_ok=True)
    os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (root / "dev/null").chmod(0o666)
    shutil.copy(ROOT / "config/example.toml", root / _HOME)
    chroot, config = "/usr/sbin/chroot", ("--config", f"/{_HOME}/example.toml")
    for arguments in (
        ("--version",),
        ("config", "check", "--offline", *config),
        ("migrate", *config),
    ):
        command = [chroot, f"--userspec={_USER}:{_USER}", str(root), "/usr/local/bin/qos-oracle"]
        subprocess.run(  # noqa: S603 - our own command
            [*command, *arguments],
            check=True,
            env=dict(variable.split("=", 1) for variable in _build_environment()),
        )


def write_image(name: str, layers: Sequence[Path], folder: Path, epoch: int) -> Path:
    """Write an image as an OCI layout in a tar archive, which `docker load` reads as well."""
    version = load_project()["project"]["version"]
    blobs: dict[str, bytes] = {}

    def add_blob(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    packed = [
        add_blob(gzip.compress(layer.read_bytes(), mtime=0), f"{_MEDIA_TYPE}.layer.v1.tar+gzip")
        for layer in layers
    ]
    config = _build_config(name, version, [sha256(layer) for layer in layers], epoch)
    config_blob = add_blob(_to_json(config), f"{_MEDIA_TYPE}.config.v1+json")
    manifest_type = f"{_MEDIA_TYPE}.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": config_blob,
        "layers": packed,
    }
    reference = {
        **add_blob(_to_json(manifest), manifest_type),
        "annotations": {"org.opencontainers.image.ref.name": version},
    }
    docker = {
        "Config": _get_blob_path(config_blob),
        "RepoTags": [f"{name}:{version}"],
        "Layers": [_get_blob_path(layer) for layer in packed],
    }
    files = {
        **blobs,
        "index.json": _to_json({"schemaVersion": 2, "manifests": [reference]}),
        "manifest.json": _to_json([docker]),
        "oci-layout": _to_json({"imageLayoutVersion": "1.0.0"}),
    }
    path = folder / f"{name}-{version}-{_ARCHITECTURE}.oci.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for file_name in sorted(files):
            info = tarfile.TarInfo(file_name)
            info.size, info.mtime, info.mode = len(files[file_name]), epoch, 0o644
            archive.addfile(info, io.BytesIO(files[file_name]))
    return path


def _build_config(name: str, version: str, diff_ids: Sequence[str], epoch: int) -> dict[str, Any]:
    """Return the image configuration: user, command, health check and labels."""
    command, port, health_path = _IMAGES[name]
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "created": created,
        "licenses": "Apache-2.0",
        "revision": get_commit_hash(),
        "title": name,
        "version": version,
    }
    url = f"http://127.0.0.1:{port}/{health_path}"
    request = f"import urllib.request as r; r.urlopen('{url}', timeout=2)"
    return {
        "architecture": _ARCHITECTURE,
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{_USER}:{_USER}",
            "Env": _build_environment(),
            "Entrypoint": ["qos-oracle"],
            "Cmd": [command],
            "WorkingDir": f"/{_HOME}",
            "Volumes": {f"/{_HOME}": {}},
            "ExposedPorts": {f"{port}/tcp": {}},
            "StopSignal": "SIGTERM",
            "Healthcheck": {"Test": ["CMD", "python3", "-c", request]},
            "Labels": {f"org.opencontainers.image.{key}": labels[key] for key in labels},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in diff_ids]},
    }


def _build_environment() -> list[str]:
    return [
        f"HOME=/{_HOME}",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        f"PYTHONPATH=/{_LIBRARIES}",
        "PYTHONUNBUFFERED=1",
        "QOS_GATEWAY_CONFIG=/etc/qos-oracle/gateway.toml",
        "QOS_ORACLE_CONFIG=/etc/qos-oracle/config.toml",
        "QOS_ORACLE_WEB__HOST=0.0.0.0",
    ]


def _get_blob_path(blob: dict[str, Any]) -> str:
    return str(blob["digest"]).replace("sha256:", "blobs/sha256/")


def _to_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
