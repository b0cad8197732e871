"""Implements `service init`, which writes the files for running the daemon to a folder.

Files of the program are replaced each time. Files of the operator (the override files, the
passwords and the receivers of alerts) are written once.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oracle import __version__
from oracle.cli.options import DryRunOption, JsonOption, print_model
from oracle.durable_files import replace_file
from oracle.errors import InputError
from oracle.queries.command_models import ServiceFolder
from oracle.resources import find_shipped_path

_MARK = "# Written by `qos-oracle service init`"
_COMPOSE, _UNIT, _STATEFUL_SET = "compose.yaml", "qos-oracle.service", "daemon.yaml"
_VERSION_VARIABLE = "${QOS_ORACLE_VERSION:-dev}"
_UNIT_INSTALLATION = "/opt/qos-oracle"
_UNIT_PROGRAM = f"{_UNIT_INSTALLATION}/bin/qos-oracle"
# The systemd unit sets ProtectHome=yes and therefore does not see these folders.
_HIDDEN_FOLDERS = ("/home", "/root", "/run/user")
# compose.yaml mounts these files, so they are copied unchanged.
_MOUNTED = ("ops/prometheus", "ops/grafana/provisioning", "ops/grafana/qos-oracle.json")
_RECEIVERS = "ops/alertmanager/alertmanager.yml"
_MANIFESTS = "ops/kubernetes"
# The image tag in the manifests; `service init` replaces it with the version.
_MANIFEST_TAG = ":dev\n"
_OWNER_ONLY, _READABLE = 0o600, 0o644

# The override file names a service, because docker-compose 1.29 (Debian 12) reads a file without
# services as the oldest file format and rejects it.
_COMPOSE_OVERRIDE = """\
# Your changes to compose.yaml; `docker compose` merges both files. `service init` never replaces
# this file. For example, more memory for the daemon:
# services:
#   daemon:
#     mem_limit: 4g
services:
  daemon: {}
"""
_UNIT_OVERRIDE = """\
# Your changes to the unit; `service init` never replaces this file. The unit blocks all addresses
# except localhost, so add one line for each endpoint, the database and the remote signer.
[Service]
# IPAddressAllow=203.0.113.10/32
"""
_KUSTOMIZATION = """\
# Your changes to the manifests, for `kubectl apply -k`; `service init` never replaces this file.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: qos-oracle
# If you need them, also gateway.yaml and, with the Prometheus operator, monitoring.yaml.
resources: [daemon.yaml, migrate.yaml, serve.yaml]
# The registry to which you pushed the images of the release:
# images:
#   - {name: qos-oracle, newName: registry.example/qos-oracle}
# For example, more memory for the daemon:
# patches:
#   - target: {kind: StatefulSet, name: qos-oracle}
#     patch: |
#       - op: replace
#         path: /spec/template/spec/containers/0/resources/limits/memory
#         value: 4Gi
"""


class ServiceKind(StrEnum):
    """The program that runs the service; each value is the file name that marks its folder."""

    COMPOSE = _COMPOSE
    SYSTEMD = _UNIT
    KUBERNETES = _STATEFUL_SET


def init_service(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help=("New folder, or a folder that this command has written before."),
        ),
    ],
    *,
    is_systemd: Annotated[
        bool, typer.Option("--systemd", help="Write a systemd unit instead of a compose file.")
    ] = False,
    is_kubernetes: Annotated[
        bool,
        typer.Option("--kubernetes", help="Write Kubernetes manifests instead of a compose file."),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the service files of the daemon to a folder; run this again after each upgrade.

    By default, the command writes compose.yaml with the daemon, pages, PostgreSQL and monitoring;
    with --systemd a systemd unit, and with --kubernetes manifests. Your changes belong in the
    override file, which is never replaced.
    """
    kind = _choose_service_kind(is_systemd=is_systemd, is_kubernetes=is_kubernetes)
    _check_folder_is_replaceable(folder / kind)
    program_files = dict(_RENDERERS[kind]())
    operator_files = _render_operator_files(kind)
    _warn_if_unit_cannot_see_program(kind)
    kept_names = [name for name in operator_files if (folder / name).exists()]
    written_names = [*program_files, *(name for name in operator_files if name not in kept_names)]
    if not dry_run:
        content_by_name = {**operator_files, **program_files}
        for name in written_names:
            file_mode = _OWNER_ONLY if name == ".env" else _READABLE
            _write_file(folder / name, content_by_name[name], file_mode)
        if kind is ServiceKind.COMPOSE:
            # Key files are mounted in this folder. If it were missing, Docker would create it with
            # root as the owner.
            (folder / "keys").mkdir(mode=0o700, exist_ok=True)
    if as_json:
        print_model(
            ServiceFolder(
                folder=str(folder), written=written_names, kept=kept_names, dry_run=dry_run
            )
        )
        return
    for name in written_names:
        typer.echo(f"{'would write' if dry_run else 'wrote'} {folder / name}")
    for name in kept_names:
        typer.echo(f"kept your {folder / name}")
    if not dry_run:
        _print_next_steps(folder, kind)


def _choose_service_kind(*, is_systemd: bool, is_kubernetes: bool) -> ServiceKind:
    """Return the kind of service selected by the options.

    Raises:
        InputError: both options are given.
    """
    if is_systemd and is_kubernetes:
        raise InputError("--systemd and --kubernetes: give only one of them")
    if is_systemd:
        return ServiceKind.SYSTEMD
    return ServiceKind.KUBERNETES if is_kubernetes else ServiceKind.COMPOSE


def _check_folder_is_replaceable(path: Path) -> None:
    """Check that this command wrote the folder's existing compose file or unit.

    Raises:
        InputError: the file has another origin, or cannot be read.
    """
    try:
        if path.exists() and not path.read_text("utf-8").startswith(_MARK):
            raise InputError(
                f"{path}: not written by `service init`; choose another folder, or move the file "
                "away"
            )
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _render_compose_files() -> Iterator[tuple[str, str]]:
    text = find_shipped_path(_COMPOSE).read_text("utf-8").replace(_VERSION_VARIABLE, __version__)
    yield _COMPOSE, f"{_format_header_comment('compose.override.yaml')}{text}"
    for name in _MOUNTED:
        source = find_shipped_path(name)
        files = sorted(path for path in source.rglob("*") if path.is_file()) or [source]
        for file in files:
            relative_path = file.relative_to(source)
            yield str(Path(name) / relative_path), file.read_text("utf-8")


def _render_systemd_unit() -> Iterator[tuple[str, str]]:
    text = find_shipped_path(f"ops/systemd/{_UNIT}").read_text("utf-8")
    header_comment = _format_header_comment(f"{_UNIT}.d/override.conf")
    yield _UNIT, header_comment + text.replace(_UNIT_PROGRAM, _find_program())


def _find_program() -> str:
    """Return the path of this installation's `qos-oracle`, for the systemd unit."""
    return shutil.which("qos-oracle", path=str(Path(sys.executable).parent)) or _UNIT_PROGRAM


def _warn_if_unit_cannot_see_program(kind: ServiceKind) -> None:
    """Warn if a systemd unit cannot see the folder of the program that it starts."""
    if kind is not ServiceKind.SYSTEMD:
        return
    program = Path(_find_program())
    hidden_folder = next((name for name in _HIDDEN_FOLDERS if program.is_relative_to(name)), None)
    if hidden_folder is not None:
        typer.echo(
            f"warning: {program}: the unit cannot start it, because ProtectHome=yes hides "
            f"{hidden_folder}; install the package into {_UNIT_INSTALLATION} and run "
            "this command from there",
            err=True,
        )


def _render_kubernetes_manifests() -> Iterator[tuple[str, str]]:
    for path in sorted(find_shipped_path(_MANIFESTS).glob("*.yaml")):
        text = path.read_text("utf-8").replace(_MANIFEST_TAG, f":{__version__}\n")
        yield path.name, _format_header_comment("kustomization.yaml") + text


_RENDERERS = {
    ServiceKind.COMPOSE: _render_compose_files,
    ServiceKind.SYSTEMD: _render_systemd_unit,
    ServiceKind.KUBERNETES: _render_kubernetes_manifests,
}


def _format_header_comment(override: str) -> str:
    return f"{_MARK} {__version__}, which replaces it; put your changes into {override}.\n"


def _render_operator_files(kind: ServiceKind) -> dict[str, str]:
    if kind is ServiceKind.SYSTEMD:
        return {f"{_UNIT}.d/override.conf": _UNIT_OVERRIDE}
    if kind is ServiceKind.KUBERNETES:
        return {"kustomization.yaml": _KUSTOMIZATION}
    password_names = ("POSTGRES_PASSWORD", "GRAFANA_PASSWORD")
    return {
        "compose.override.yaml": _COMPOSE_OVERRIDE,
        ".env": "".join(f"{name}={secrets.token_urlsafe(24)}\n" for name in password_names),
        _RECEIVERS: find_shipped_path(_RECEIVERS).read_text("utf-8"),
    }


def _write_file(path: Path, content: str, mode: int) -> None:
    """Replace a file, and set the mode of the new file.

    All files except passwords must be readable by other users, because containers run as another
    user.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as temporary_path:
            descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _print_next_steps(folder: Path, kind: ServiceKind) -> None:
    typer.echo("\nNext:")
    if kind is ServiceKind.KUBERNETES:
        typer.echo(
            "  push the release's images to a registry, name it in kustomization.yaml, and create "
            f"the Secrets\n  (docs/how-to/run-on-kubernetes.md), then: kubectl apply -k {folder}"
        )
        return
    if kind is ServiceKind.SYSTEMD:
        typer.echo(
            "  write /etc/qos-oracle/config.toml (`qos-oracle init`), copy the unit and its "
            "folder to /etc/systemd/system,\n  then: systemctl daemon-reload && systemctl enable "
            "--now qos-oracle"
        )
        return
    if not (folder / "config/local.toml").exists():
        typer.echo(
            f"  qos-oracle init --config {folder}/config/local.toml\n"
            f"  chown -R 10001 {folder}/config {folder}/keys   (the user in the container)"
        )
    typer.echo(f"  docker compose --project-directory {folder} up --detach")
