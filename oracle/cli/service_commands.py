"""Implements `service`, which writes a service's files, and backs up and restores its database."""

from pathlib import Path

import typer

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
from oracle.cli.service_init import init_service
from oracle.cli.service_upgrade import upgrade
from oracle.cli.write_session import check_lease_is_free
from oracle.daemon.config.loader import read_config
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.queries.command_models import DatabaseBackup
from oracle.store.backup import back_up_database, restore_database
from oracle.store.database import Store
from oracle.store.db_errors import format_database_name
from oracle.store.engine import parse_database_url
from oracle.store.schema import SchemaAge, inspect_schema

service = typer.Typer(no_args_is_help=True)
service.command("init", epilog="Example: qos-oracle service init /srv/qos-oracle")(init_service)
service.command(
    "upgrade", epilog="Example: qos-oracle service upgrade /backups/before-upgrade --dry-run"
)(upgrade)


def register(app: typer.Typer) -> None:
    app.add_typer(
        service,
        name="service",
        help="Write a service's files; back up, restore and upgrade it.",
    )


@service.command("backup", epilog="Example: qos-oracle service backup /backups/oracle-today")
def back_up(
    backup: BackupArgument, config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """Write a snapshot of the database to a new file; the daemon may be running.

    The file is checked before it gets its name. Keystores, password files and evidence files are
    not included. PostgreSQL needs its client program `pg_dump`.
    """
    url = read_config(config).database.url
    back_up_database(url, backup)
    result = _build_result(url, backup)
    if as_json:
        print_model(result)
        return
    typer.echo(f"wrote {backup} ({result.bytes:,} bytes): {result.database}")
    typer.echo("not included: keystores, password files and evidence files")


@service.command(
    "restore", epilog="Example: qos-oracle service restore /backups/oracle-today --dry-run"
)
def restore(
    backup: BackupArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the database with a backup; the daemon and its standbys must be stopped.

    The backup is checked first. The replaced SQLite database is kept beside the new one. A
    PostgreSQL database must be empty; its client program `pg_restore` is needed.
    """
    url = read_config(config).database.url
    has_database = _check_existing_database(url)
    database = parse_database_url(url)
    name = format_database_name(database)
    confirm_action(f"{name}: restoring {backup}", yes=yes, dry_run=dry_run)
    path = Path(database.database or "")
    replaced_path = path.with_name(f"{path.name}.replaced-{unix_seconds():.0f}")
    restore_database(url, backup, replaced_path, dry_run=dry_run)
    replaced_file = str(replaced_path) if has_database and not dry_run else None
    result = _build_result(url, backup, replaced_file=replaced_file, dry_run=dry_run)
    if as_json:
        print_model(result)
        return
    if dry_run:
        typer.echo(f"{backup} is intact; {name} would be restored from it")
        return
    typer.echo(f"restored {name} from {backup}")
    if replaced_file is not None:
        typer.echo(f"the replaced database is kept as {replaced_file}")
    if inspect_schema(url).age is SchemaAge.OLDER:
        typer.echo("the schema is older than the program: run `qos-oracle migrate` first")
    if result.block is not None:
        typer.echo(f"last folded block: {result.block}; the daemon continues there")
    typer.echo("a reporter first signs nothing for `oracle.report_ttl_seconds` of chain time")


def _check_existing_database(url: str) -> bool:
    """Check that no process uses the database, and return whether it exists.

    Raises:
        InputError: the database belongs to another program.
        FatalError: another process works on the database.
    """
    name = format_database_name(parse_database_url(url))
    try:
        age = inspect_schema(url).age
    except InputError as error:
        # The lease of a damaged database cannot be read, but the damage is a good reason to
        # restore a backup.
        typer.echo(f"warning: {error}; make sure that no process uses it", err=True)
        return True
    if age is SchemaAge.FOREIGN:
        raise InputError(f"{name} has tables of another program; nothing was replaced")
    if age is SchemaAge.EMPTY:
        return False
    with Store(parse_database_url(url)) as store:
        check_lease_is_free(store, "service restore")
    return True


def _build_result(
    url: str, backup: Path, *, replaced_file: str | None = None, dry_run: bool = False
) -> DatabaseBackup:
    folded_block = None
    if not dry_run and inspect_schema(url).age is SchemaAge.CURRENT:
        with Store(parse_database_url(url)) as store, store.read_transaction() as uow:
            cursor = uow.cursor.get()
        folded_block = None if cursor is None else cursor.number
    return DatabaseBackup(
        backup=str(backup),
        bytes=backup.stat().st_size,
        database=format_database_name(parse_database_url(url)),
        block=folded_block,
        replaced=replaced_file,
        dry_run=dry_run,
    )
