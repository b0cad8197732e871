"""Builds the layers of container images reproducibly, and starts programs in them.

mmdebstrap makes the base layer of Debian's packages. The second layer contains the packages of
constraints/run.txt and the wheels of a commit. The third layer, for the devnet, contains Anvil.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bootstrap import BY_HASH
from release.pins import ROOT
from release.wheels import build_wheel

SUITE = "bookworm"
PYTHON = (3, 11)
ARCHITECTURE = "amd64"
USER = 10001
HOME, LIBRARIES = "var/lib/qos-oracle", "opt/qos-oracle/lib"
ENVIRONMENT = {
    "HOME": f"/{HOME}",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": f"/{LIBRARIES}",
    "PYTHONUNBUFFERED": "1",
    "QOS_GATEWAY_CONFIG": "/etc/qos-oracle/gateway.toml",
    "QOS_ORACLE_CONFIG": "/etc/qos-oracle/config.toml",
    "QOS_ORACLE_WEB__HOST": "0.0.0.0",  # noqa: S104 - in its container
}
_PROGRAM = """\
#!/usr/bin/python3
from oracle.cli.main import main

main()
"""
_ANVIL = "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
# This script starts a program as a container runtime would, with a read-only root file system, a
# volume for data, and a user without privileges. Its arguments are the root, the volume's folder
# and the command.
_START = f"""\
set -e
root=$1 volume=$2
shift 2
mount --bind "$root" "$root"
mount --bind "$volume" "$root/{HOME}"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,ro,bind "$root"
exec /usr/sbin/chroot --userspec={USER}:{USER} "$root" "$@"
"""
_DEVNET_SECONDS = 120


def find_image_build_obstacle() -> str | None:
    """Return why this machine cannot build the images, or None if it can."""
    if shutil.which("mmdebstrap") is None:
        return "mmdebstrap is not installed; install Debian's package mmdebstrap"
    if os.geteuid() != 0:
        return "the user is not root, to whom the files of an image belong"
    if sys.version_info[:2] != PYTHON or os.uname().machine != "x86_64":
        return "images need x86-64 and Python 3.11, the version in Debian 12"
    return None


def build_base_layer(path: Path, epoch: int, sources: Sequence[str]) -> Path:
    """Build the base layer with Debian's essential packages, Python and certificates.

    `sources` are package sources for mmdebstrap, by default deb.debian.org with its security
    updates. Later builds are only identical if the source never changes (snapshot.debian.org).

    Raises:
        subprocess.CalledProcessError: mmdebstrap failed; its output is printed.
    """
    excluded_folders = ("doc", "info", "locale", "man")
    command = [
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=essential", "--skip=output/dev"),
        "--include=python3,ca-certificates",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in excluded_folders),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--customize-hook=rm -rf "$1"/var/log/* "$1"/var/cache/* "$1"/var/lib/apt/lists',
        *(SUITE, str(path), *sources),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - our own command
    return path


def build_application_layer(checkout: Path, folder: Path, epoch: int) -> Path:
    """Build the layer with the pinned packages and a checkout's wheels.

    Raises:
        subprocess.CalledProcessError: a build or pip failed.
    """
    root = folder / "root"
    libraries_folder = folder / "root" / LIBRARIES
    wheels = [
        build_wheel(checkout, folder / "wheel", epoch),
        build_wheel(checkout / "native", folder / "native", epoch),
    ]
    pip_command = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile")
    for options in (
        (*BY_HASH, "--requirement", str(checkout / "constraints/run.txt")),
        ("--no-deps", "--no-index", *map(str, wheels)),
    ):
        command = (*pip_command, "--target", str(libraries_folder), *options)
        subprocess.run(command, check=True)  # noqa: S603 - our own command
    # Remove the scripts, which start with the path of this interpreter. Also remove files of pip
    # that name the folder from which the wheels were installed.
    shutil.rmtree(libraries_folder / "bin")
    for record in (
        *libraries_folder.glob("*.dist-info/direct_url.json"),
        *libraries_folder.glob("*/RECORD"),
    ):
        record.unlink()
    program_path = root / "usr/local/bin/qos-oracle"
    program_path.parent.mkdir(parents=True)
    program_path.write_text(_PROGRAM, "utf-8")
    program_path.chmod(0o755)
    for name in (HOME, "etc/qos-oracle"):
        (root / name).mkdir(parents=True)
    return write_tar(root, folder / "application.tar", epoch)


def build_devnet_layer(folder: Path, epoch: int) -> Path:
    """Build the layer with Anvil, which npm installs.

    It is installed where `qos-oracle devnet` looks for it.
    """
    anvil_path = f"{LIBRARIES}/oracle/_shipped/{_ANVIL}"
    binary_path = folder / "root" / anvil_path
    link_path = folder / "root/usr/local/bin/anvil"
    for path in (binary_path, link_path):
        path.parent.mkdir(parents=True)
    shutil.copy(ROOT / _ANVIL, binary_path)
    link_path.symlink_to(f"/{anvil_path}")
    return write_tar(folder / "root", folder / "devnet.tar", epoch)


def write_tar(root: Path, layer: Path, epoch: int) -> Path:
    """Write a folder as a tar archive with a fixed order and fixed metadata.

    Times, owners and modes are fixed.
    """
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            _add_to_layer(archive, path, str(path.relative_to(root)), epoch)
    return layer


def _add_to_layer(archive: tarfile.TarFile, path: Path, name: str, epoch: int) -> None:
    tar_info = archive.gettarinfo(path, name)
    tar_info.mtime, tar_info.uname, tar_info.gname = epoch, "", ""
    tar_info.uid = tar_info.gid = USER if name == HOME else 0
    tar_info.mode = 0o755 if tar_info.isdir() or tar_info.mode & 0o100 else 0o644
    if tar_info.isreg():
        with path.open("rb") as file:
            archive.addfile(tar_info, file)
    else:
        archive.addfile(tar_info)


def check_programs_start(layers: Sequence[Path], folder: Path) -> None:
    """Unpack the layers, and check that their programs start as the image's user.

    `run --once` indexes the chain of `qos-oracle devnet`, which runs in a second container.

    Raises:
        subprocess.CalledProcessError: a program failed; its output is printed.
        TimeoutError: the devnet did not start.
    """
    root = folder / "root"
    volume_folder = folder / "volume"
    for path in (root, volume_folder):
        path.mkdir(parents=True)
    os.chown(volume_folder, USER, USER)
    for layer in layers:
        with tarfile.open(layer) as archive:
            archive.extractall(root, filter="tar")
    (root / "dev").mkdir(exist_ok=True)
    shutil.copy(ROOT / "config/example.toml", volume_folder)
    config_option = ("--config", f"/{HOME}/example.toml")
    for arguments in (
        ("qos-oracle", "--version"),
        ("anvil", "--version"),
        ("qos-oracle", "config", "check", "--offline", *config_option),
        ("qos-oracle", "migrate", *config_option),
        ("qos-oracle", "gateway", "--help"),
    ):
        _run_in_image(root, volume_folder, *arguments)
    with _run_devnet(root, volume_folder) as config_file:
        _run_in_image(root, volume_folder, "qos-oracle", "run", "--once", "--config", config_file)
        _run_in_image(root, volume_folder, "qos-oracle", "nodes", "--config", config_file)


@contextmanager
def _run_devnet(root: Path, volume: Path) -> Iterator[str]:
    """Run the local network, and yield the path of the daemon's configuration.

    The path is inside the image.
    """
    # Blocks are slow, because `run --once` ends when it reaches the head. On a slow machine, it
    # might never catch up with fast blocks.
    devnet_options = ("--folder", f"/{HOME}/net", "--port", "0", "--block-seconds", "10")
    command = _build_start_command(root, volume, "qos-oracle", "devnet", *devnet_options)
    with subprocess.Popen(command, env=ENVIRONMENT) as process:  # noqa: S603 - our own command
        try:
            deadline = time.monotonic() + _DEVNET_SECONDS
            while not (volume / "net/devnet.toml").exists():
                if process.poll() is not None:
                    raise subprocess.CalledProcessError(process.returncode, command)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the devnet did not start in {_DEVNET_SECONDS} seconds")
                time.sleep(0.2)
            yield f"/{HOME}/net/devnet.toml"
        finally:
            process.terminate()


def _run_in_image(root: Path, volume: Path, *arguments: str) -> None:
    subprocess.run(  # noqa: S603 - our own command
        _build_start_command(root, volume, *arguments), check=True, env=ENVIRONMENT
    )


def _build_start_command(root: Path, volume: Path, *arguments: str) -> list[str]:
    start = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", _START, "sh"]
    return [*start, str(root), str(volume), *arguments]
