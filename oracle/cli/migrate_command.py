"""`migrate`: upgrades the database schema to the revision of this version."""

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    print_answer,
)
from oracle.daemon.config.loader import load
from oracle.queries.setup_models import SchemaChange
from oracle.store.schema import SchemaAge, migrate as migrate_tables, schema_state


def register(app: typer.Typer) -> None:
    """Register `migrate` on the command line."""
    app.command("migrate", epilog="Example: qos-oracle migrate --dry-run")(migrate)


def migrate(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Upgrade the database schema to this version, in one transaction."""
    url = load(config).database.url
    before = schema_state(url) if dry_run else migrate_tables(url)
    if as_json:
        print_answer(SchemaChange(before=before.found, wanted=before.wanted, dry_run=dry_run))
        return
    found = before.found or "no tables"
    if before.age is SchemaAge.CURRENT:
        typer.echo(f"nothing to do: the tables are at revision {before.wanted}")
    else:
        would = "would go" if dry_run else "went"
        typer.echo(f"the tables {would} from {found} to revision {before.wanted}")
