"""Implements `service upgrade`, which prepares an older version's database for this version."""

from functools import partial
from pathlib import Path

import typer

from oracle import __version__
from oracle.cli.changelog import list_breaking_changes, split_changelog_by_version
from oracle.cli.options import (
    DEFAULT_CONFIG,
    BackupArgument,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    confirm_action,
    print_model,
)
from oracle.cli.write_session import (
    check_lease_is_free,
    check_no_lease_holder,
    open_write_session,
    warn_if_leased,
)
from oracle.daemon.config.loader import read_config
from oracle.errors import FatalError, InputError
from oracle.queries.command_models import ServiceUpgrade
from oracle.resources import find_shipped_path
from oracle.store.backup import back_up_database
from oracle.store.bookmarks import PROGRAM_VERSION
from oracle.store.database import Store
from oracle.store.db_errors import format_database_name
from oracle.store.engine import parse_database_url
from oracle.store.lease_repository import LeaseState
from oracle.store.schema import REVISION, SchemaAge, migrate, require_upgradable_schema

_COMMAND = "service upgrade"


def upgrade(
    backup: BackupArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prepare the database for this version; the daemon and its standbys must be stopped.

    Lists the breaking changes since the version that used the database last, writes a backup, and
    upgrades the schema in one transaction, which is rolled back if a row was lost or changed.
    """
    url = read_config(config).database.url
    schema = require_upgradable_schema(url)
    with Store(parse_database_url(url)) as store:
        with store.read_transaction() as uow:
            previous_version = uow.bookmarks.get(PROGRAM_VERSION)
        name = format_database_name(parse_database_url(url))
        is_needed = schema.age is SchemaAge.OLDER or previous_version != __version__
        result = ServiceUpgrade(
            database=name,
            previous_version=previous_version,
            version=__version__,
            breaking_changes=_read_breaking_changes(name, previous_version),
            before=schema.found_revision,
            wanted=REVISION,
            backup=str(backup) if is_needed else None,
            dry_run=dry_run,
        )
        if not as_json:
            _print_upgrade_plan(result)
        if is_needed:
            if dry_run:
                warn_if_leased(store)
            else:
                check_lease_is_free(store, _COMMAND)
            if confirm_action(f"{name}: upgrading", yes=yes, dry_run=dry_run):
                epoch = check_lease_is_free(store, _COMMAND)
                back_up_database(url, backup)
                migrate(url, partial(_check_database_unused_since_backup, backup, epoch))
                with open_write_session(store, _COMMAND, dry_run=False) as (uow, _):
                    uow.bookmarks.set(PROGRAM_VERSION, __version__)
    if as_json:
        print_model(result)
    elif is_needed and not dry_run:
        _print_upgrade_outcome(result)


def _check_database_unused_since_backup(backup: Path, epoch: int, lease_state: LeaseState) -> None:
    """Check that the database has not been used since the backup began.

    `epoch` is the epoch of the lease before the backup.

    Raises:
        FatalError: a process holds the lease, or has held it, so that the backup is too old.
    """
    check_no_lease_holder(lease_state, _COMMAND)
    if lease_state.epoch != epoch:
        raise FatalError(
            f"{backup}: another process used the database after this backup was begun, so that "
            "it would not restore the newest state; the database was not upgraded: stop the "
            f"daemon and its standbys, and run `{_COMMAND}` again with another backup path"
        )


def _read_breaking_changes(name: str, previous_version: str | None) -> dict[str, list[str]]:
    """Read the breaking changes since a version from this installation's changelog.

    Raises:
        InputError: this version is older than the version that used the database last.
    """
    releases = split_changelog_by_version(find_shipped_path("CHANGELOG.md").read_text("utf-8"))
    if previous_version is not None and previous_version not in releases:
        raise InputError(
            f"{name} was last used by qos-oracle {previous_version}, which is newer than this "
            f"{__version__}; install {previous_version}, or restore a backup of this version "
            "(`qos-oracle service restore`)"
        )
    return list_breaking_changes(releases, previous_version)


def _print_upgrade_plan(result: ServiceUpgrade) -> None:
    previous_version_text = result.previous_version or "an unknown version"
    if result.backup is None:
        typer.echo(f"nothing to do: {result.database} is ready for qos-oracle {result.version}")
        return
    typer.echo(f"{result.database}: from qos-oracle {previous_version_text} to {result.version}")
    for version, changes in result.breaking_changes.items():
        typer.echo(f"breaking changes in {version}:")
        for change in changes:
            typer.echo(f"  - {change}")
    if not result.breaking_changes:
        typer.echo("the changelog lists no breaking changes")
    if result.before == result.wanted:
        typer.echo(f"the schema stays at revision {result.wanted}")
    else:
        typer.echo(f"the schema changes from revision {result.before} to {result.wanted}")


def _print_upgrade_outcome(result: ServiceUpgrade) -> None:
    typer.echo(f"wrote the backup {result.backup}")
    if result.before != result.wanted:
        typer.echo(f"the schema was upgraded to revision {result.wanted}; every row is as before")
    version_text = result.previous_version or "the old version"
    typer.echo(
        f"to go back: stop the daemon, install {version_text}, and run "
        f"`qos-oracle service restore {result.backup}`"
    )
    typer.echo("next: run `qos-oracle contract check`, then start the daemon and `serve`")
