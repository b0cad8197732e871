"""Implements `migrate`, which upgrades the database schema to this version's revision."""

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    print_model,
)
from oracle.cli.write_session import check_no_lease_holder
from oracle.daemon.config.loader import read_config
from oracle.queries.command_models import SchemaChange
from oracle.store.schema import REVISION, SchemaAge, inspect_schema, migrate as migrate_tables


def register(app: typer.Typer) -> None:
    app.command("migrate", epilog="Example: qos-oracle migrate --dry-run")(migrate)


def migrate(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Upgrade the database schema to this version.

    Compares every row with its old values. If a row has changed, nothing is written. `service
    upgrade` also writes a backup.
    """
    url = read_config(config).database.url
    schema = (
        inspect_schema(url)
        if dry_run
        else migrate_tables(url, lambda lease_state: check_no_lease_holder(lease_state, "migrate"))
    )
    if as_json:
        print_model(SchemaChange(before=schema.found_revision, wanted=REVISION, dry_run=dry_run))
        return
    old_revision = schema.found_revision or "an empty database"
    if schema.age is SchemaAge.CURRENT:
        typer.echo(f"nothing to do: the schema is at revision {REVISION}")
    else:
        verb = "would be upgraded" if dry_run else "was upgraded"
        typer.echo(f"the schema {verb} from {old_revision} to revision {REVISION}")
