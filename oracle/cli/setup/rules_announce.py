"""Implements `rules announce`, which prepares a rules change in the contract's timelock."""

from pathlib import Path

import typer

from oracle.bindings.qos_roots import RootsContract
from oracle.bindings.timelock import fetch_timelock_delay
from oracle.cli.options import load_config, print_model
from oracle.cli.setup.contract_calls import build_contract_call, encode_contract_call
from oracle.cli.setup.contract_values import print_contract_result
from oracle.cli.system_options import read_rules_file
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.compose import serialize_configured_rules
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.daemon.event_readers import open_reader
from oracle.daemon.senders import get_oracle_address, open_report_account
from oracle.domain.reports.report import format_rules_id
from oracle.errors import InputError
from oracle.queries.contract_models import AnnouncementAnswer, ContractCallAnswer
from oracle.queries.rules_texts import hash_reason, hash_rules_text


def announce_rules(
    config_path: Path, file: Path, reason: str, *, dry_run: bool, as_json: bool
) -> None:
    """Print the calls that announce the rules in a file, and store the rules and the reason.

    Raises:
        InputError: the file has no valid rules, or it has the configured rules; or the contract's
            admin is not a timelock; or the folder cannot be written.
        TransientError: no endpoint responds.
    """
    loaded_config = load_config(config_path)
    rules = read_rules_file(file, {})
    reader = open_reader(loaded_config)
    current_text = serialize_configured_rules(loaded_config, reader)
    new_text = format_rules_id(
        rules, reader.identity, build_report_settings(loaded_config.oracle, rules)
    )
    if new_text == current_text:
        raise InputError(f"{file}: these are the configured rules; there is nothing to announce")
    rules_hash = hash_rules_text(new_text)
    reason_hash = hash_reason(reason)
    call = _build_call(loaded_config, rules_hash, int(reason_hash, 16))
    text_by_name = {
        f"{rules_hash}.json": new_text,
        # The current rules are stored too, so that `rules history` can still compare them once
        # they have been replaced.
        f"{hash_rules_text(current_text)}.json": current_text,
        f"{reason_hash}.txt": reason,
    }
    folder = loaded_config.rules.announced_folder
    if not dry_run:
        _write_rules_files(folder, text_by_name)
    answer = AnnouncementAnswer(
        rules_hash=rules_hash,
        reason_hash=reason_hash,
        folder=str(folder),
        files=list(text_by_name),
        dry_run=dry_run,
        call=call,
    )
    if as_json:
        print_model(answer)
    else:
        _print_announcement(answer)


def _build_call(settings: Config, rules_hash: str, salt: int) -> ContractCallAnswer:
    calldata = encode_contract_call("set-rules", [rules_hash])
    oracle = get_oracle_address(settings)
    with open_checked_chain(settings) as chain:
        pool_view = open_report_account(settings, chain).pool_view
        configuration = RootsContract(pool_view, oracle).fetch_configuration()
        delay = fetch_timelock_delay(pool_view, configuration.admin)
    admin = configuration.admin
    if delay is None:
        raise InputError(
            f"the contract's admin {admin} is not a timelock, so rules cannot be announced; "
            f"`qos-oracle contract calldata set-rules {rules_hash}` prints the call"
        )
    if settings.oracle.timelock != admin:
        raise InputError(
            f"oracle.timelock: {settings.oracle.timelock or 'not set'}, but the contract's admin "
            f"is {admin}; set it so that this reporter reads the announcement"
        )
    return build_contract_call("set-rules", calldata, oracle, configuration, delay, salt)


def _write_rules_files(folder: Path, text_by_name: dict[str, str]) -> None:
    """Write files, each named after the hash of its content."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in text_by_name.items():
            (folder / name).write_bytes(text.encode())
    except OSError as error:
        raise InputError(f"{folder}: cannot write the rules: {error.strerror}") from error


def _print_announcement(answer: AnnouncementAnswer) -> None:
    typer.echo(f"rules hash {answer.rules_hash}")
    typer.echo(f"reason hash {answer.reason_hash}, which is the salt")
    verb = "would be written" if answer.dry_run else "written"
    typer.echo(f"{verb} into {answer.folder}: {', '.join(answer.files)}")
    print_contract_result(answer.call, as_json=False)
    typer.echo("give these files to the other reporters before the rules come into force")
