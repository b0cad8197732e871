"""Implements `keys`, which creates keystores and shows the addresses of the configured keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.daemon.config.keys_section import ROLES, Role
from oracle.daemon.config.loader import Config
from oracle.daemon.configured_keys import OpenKey, make_key_opener
from oracle.domain.ids import Address
from oracle.errors import InputError, OracleError
from oracle.queries.command_models import CreatedKey, KeyEntry
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, print_table
from oracle.signing.factory import describe_key_location
from oracle.signing.key_locations import RemoteKey
from oracle.signing.keystore import create_keystore

keys = typer.Typer(no_args_is_help=True)

_ADVICE = (
    "back up both files now, in separate places: the two together are the key,",
    "and neither can be recreated. Then set keys.<role>_keystore, keys.<role>_password_file",
    "and keys.<role>_address (docs/explanation/security.md).",
)
# A remote signer is contacted only to sign, so `keys show` does not verify its address.
_REMOTE_KEY_NOTE = "address taken from the configuration; `qos-oracle selftest` tests a signature"


def register(app: typer.Typer) -> None:
    app.add_typer(keys, name="keys", help="Create keys and show the configured ones.")


@keys.command(epilog="Example: qos-oracle keys create keys/signer.json keys/signer.password")
def create(
    keystore: Annotated[
        Path, typer.Argument(help="Path of the new keystore.", metavar="KEYSTORE")
    ],
    password_file: Annotated[
        Path, typer.Argument(help="Path of the new password file.", metavar="PASSWORD_FILE")
    ],
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Create an encrypted keystore and its random password file.

    The password file has mode 600. Neither file may exist yet: a key is never overwritten.
    """
    if keystore.absolute() == password_file.absolute():
        raise InputError(
            f"{keystore}: keystore and password file have the same path; use two different paths"
        )
    for path in (keystore, password_file):
        if path.exists():
            raise InputError(f"{path}: the file already exists; a key is never overwritten")
    address = None if dry_run else create_keystore(keystore, password_file)
    if as_json:
        print_model(
            CreatedKey(
                address=address,
                keystore=str(keystore),
                password_file=str(password_file),
                dry_run=dry_run,
            )
        )
    elif dry_run:
        typer.echo(f"would write {keystore} and {password_file}")
    else:
        typer.echo(str(address))
        for line in _ADVICE:
            typer.echo(line, err=True)


@keys.command(epilog="Example: qos-oracle keys show --json")
def show(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Open all configured keys and show their addresses.

    Exit code 2 if a key cannot be opened.
    """
    addresses, key_entries = _list_key_entries(load_config(config))
    if as_json:
        print_model(key_entries)
    elif key_entries:
        columns = ("role", "address", "location")
        cells = [[entry.role, entry.address or "-", entry.where] for entry in key_entries]
        print_table(columns, cells, left_columns=columns, width=WIDE_TABLE_WIDTH)
        for entry in key_entries:
            for remark in (entry.fault, entry.note):
                if remark is not None:
                    typer.echo(f"{entry.role}: {remark}")
    else:
        typer.echo("no keys are configured")
    failed_roles = [entry.role for entry in key_entries if entry.fault is not None]
    if failed_roles:
        raise InputError(f"{config}: these keys cannot be used: {', '.join(failed_roles)}")
    sharing_text = describe_shared_key(addresses)
    if sharing_text is not None:
        raise InputError(f"{config}: {sharing_text}")


def describe_shared_key(addresses: Mapping[Role, Address | None]) -> str | None:
    """Name the roles that share a key, or return None if no key is shared."""
    for address in addresses.values():
        sharing_roles = [
            role for role, other_address in addresses.items() if other_address == address
        ]
        if address is not None and len(sharing_roles) > 1:
            return (
                f"{' and '.join(sharing_roles)} have the same key ({address}): each needs its own"
            )
    return None


def _list_key_entries(config: Config) -> tuple[dict[Role, Address | None], list[KeyEntry]]:
    """Return the address and the result entry of each role that has a configured key."""
    addresses: dict[Role, Address | None] = {}
    entries = []
    open_key = make_key_opener(config)
    for role in ROLES:
        location = config.keys.find_key_location(role)
        if location is not None:
            address, fault = _try_open_key(open_key, role)
            note = _REMOTE_KEY_NOTE if isinstance(location, RemoteKey) else None
            addresses[role] = address
            entries.append(
                KeyEntry(
                    role=role,
                    address=address,
                    where=describe_key_location(location),
                    fault=fault,
                    note=note,
                )
            )
    return addresses, entries


def _try_open_key(open_key: OpenKey, role: Role) -> tuple[Address | None, str | None]:
    try:
        signer = open_key(role)
    except OracleError as error:
        return None, str(error)
    return None if signer is None else signer.address, None
