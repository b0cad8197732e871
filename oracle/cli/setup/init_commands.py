"""Implements `init`, which writes a working configuration for an endpoint and contracts."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from oracle.chain.heads import Finality
from oracle.chain.log_filter import LogFilter
from oracle.chain.probe_schedule import EndpointProber
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile_loader import list_shipped_profiles, load_profile
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, DryRunOption
from oracle.cli.setup.config_commands import check
from oracle.cli.setup.contract_values import parse_named_address, parse_required_address
from oracle.cli.setup.endpoint_commands import (
    ProbedEndpoint,
    print_probe_results,
    probe_single_endpoint,
)
from oracle.cli.setup.network_survey import (
    BlockRate,
    find_deployment_block,
    measure_block_rate,
    propose_finality,
)
from oracle.cli.setup.profile_report import describe_on_chain_actions
from oracle.domain.ids import Address
from oracle.errors import InputError, OracleError, TransientError
from oracle.queries.text.human_numbers import format_duration
from oracle.resources import find_shipped_path
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.new_heads import find_websocket_url
from oracle.rpc.pool import EndpointPool
from oracle.rpc.transport import redact_url

# Endpoint URLs may contain API keys, so the file is private.
_OWNER_ONLY = 0o600

# The shipped configurations of public networks (`--network`).
_PRESET_FILES = {"crynux": "config/crynux.toml"}
_DATABASE = re.compile(r'(?m)^url = "sqlite:///.*"$')
_ENDPOINTS = re.compile(r"(?m)^endpoints = \[.*\]$")


class NetworkInputs(NamedTuple):
    """The user's input about a network; `oracle` is None if there is no oracle contract."""

    endpoints: Sequence[str]
    profile: str
    contracts: Mapping[str, Address]
    oracle: Address | None
    database: str


class NetworkFindings(NamedTuple):
    """The results of inspecting a network.

    `start_block` is None if no endpoint has the state of blocks that are old enough; `websocket`
    is the URL of a websocket that announces new blocks, or None if there is none.
    """

    rate: BlockRate
    websocket: str | None
    start_block: int | None
    finality: Finality
    finality_reason: str


def render_config(inputs: NetworkInputs, findings: NetworkFindings) -> str:
    """Render a configuration file for the inspected network.

    The settings reference in the documentation lists all settings.
    """
    contracts = ", ".join(
        f"{name} = {json.dumps(contract_address)}"
        for name, contract_address in inputs.contracts.items()
    )
    start_lines = (
        "# The block in which the first of the contracts was deployed, found by their code.\n"
        f"start_block = {findings.start_block}"
        if findings.start_block is not None
        else "# No endpoint has state old enough to find the first contract's deployment block:\n"
        "# set it here, otherwise all blocks from block 0 on are read.\n"
        "start_block = 0"
    )
    websocket_lines = (
        "# No endpoint has a websocket that announces new blocks.\n# websocket ="
        if findings.websocket is None
        else "# Announces new blocks, which are then read at once.\n"
        f"websocket = {json.dumps(findings.websocket)}"
    )
    return f"""\
# Created by `qos-oracle init`. Other settings have their defaults (docs/reference/settings.md).

[database]
# SQLite uses a single file; PostgreSQL: "postgresql://oracle@localhost/oracle".
url = {json.dumps(inputs.database)}

[chain]
id = {findings.rate.chain_id}
# The first endpoint is preferred; add one of another provider, so that responses can be compared.
endpoints = [{", ".join(map(json.dumps, inputs.endpoints))}]
{websocket_lines}
{start_lines}
# When a block is final: {findings.finality_reason}.
finality_depth = {findings.finality.depth}
finality_seconds = {findings.finality.seconds}
# The recent block time is {findings.rate.block_seconds:.1f} s.
poll_seconds = {findings.rate.poll_seconds}

[network]
# The profile that translates events and calls of the contracts.
profile = {json.dumps(inputs.profile)}
contracts = {{ {contracts} }}

[oracle]
# Address of contracts/roots/QoSRoots.sol; without it, scores are computed but not reported.
{"# address =" if inputs.oracle is None else f"address = {json.dumps(inputs.oracle)}"}
# Whether reports are sent; if not, they are only computed and shown.
publish = false

[rules]
# `qos-oracle rules list` describes the rule sets.
set = "crynux"
"""


def write_config(path: Path, text: str) -> None:
    """Write a new file that only its owner can read.

    Raises:
        InputError: the file already exists, or its folder is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except FileExistsError:
        raise InputError(
            f"{path}: the file already exists; choose another one with --config"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


_EndpointsOption = Annotated[
    list[str] | None,
    typer.Option("--endpoint", metavar="URL", help="URL of a JSON-RPC endpoint; repeatable."),
]
_NetworkOption = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="NAME",
        help="Public network to configure, in place of --profile and --contract: crynux.",
    ),
]
_ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Shipped profile, or path of a custom one. Default: reference.",
    ),
]
_ContractsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--contract",
        metavar="NAME=0x…",
        help="Address of a contract of the profile; repeatable.",
    ),
]
_OracleOption = Annotated[
    str | None,
    typer.Option("--oracle", metavar="0x…", help="Address of the oracle contract. Default: none."),
]
_DatabaseOption = Annotated[
    str,
    typer.Option("--database", metavar="URL", help="Database URL."),
]
_StartBlockOption = Annotated[
    int | None,
    typer.Option(
        "--start-block",
        metavar="BLOCK",
        min=0,
        help="First block to index, instead of the detected deployment block.",
    ),
]
_YesOption = Annotated[
    bool,
    typer.Option("--yes", help="Never prompt: use proposed defaults, and fail on missing values."),
]


def register(app: typer.Typer) -> None:
    example = "qos-oracle init --endpoint https://rpc.example.org --contract TaskNetwork=0x…"
    app.command("init", epilog=f"Example: {example}")(init)


def init(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    network: _NetworkOption = None,
    endpoint: _EndpointsOption = None,
    profile: _ProfileOption = None,
    contract: _ContractsOption = None,
    oracle: _OracleOption = None,
    database: _DatabaseOption = "sqlite:///qos-oracle.sqlite",
    start_block: _StartBlockOption = None,
    yes: _YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Inspect a network, write its configuration, and check it.

    Prompts for missing options. Finds the deployment block of the first contract, probes the
    endpoints as `endpoint probe` does, and proposes finality settings. With --network, writes the
    preset of a public network without contacting it. Overwrites no file; --dry-run prints the
    configuration instead.
    """
    if config.exists() and not dry_run:
        raise InputError(f"{config}: the file already exists; choose another one with --config")
    if network is not None:
        if profile or contract or oracle or start_block is not None:
            raise InputError(
                "--network: the preset has a profile, contracts and a start block; leave out "
                "--profile, --contract, --oracle and --start-block"
            )
        _write_preset_config(
            config, render_preset(network, endpoint or (), database), dry_run=dry_run
        )
        return
    urls = endpoint or [_prompt_for_option("endpoint", "Endpoint (a JSON-RPC address)", yes=yes)]
    profile_name = profile or _prompt_for_profile(yes=yes)
    given_addresses = dict(map(parse_named_address, contract or []))
    inputs = NetworkInputs(
        endpoints=urls,
        profile=profile_name,
        contracts=_prompt_for_contracts(profile_name, given_addresses, yes=yes),
        oracle=_prompt_for_oracle(oracle, yes=yes),
        database=database,
    )
    network_findings = _inspect_network(inputs, start_block)
    config_text = render_config(inputs, network_findings)
    if dry_run:
        typer.echo(config_text, nl=False)
        return
    write_config(config, config_text)
    typer.echo(f"\nwrote {config}; result of `config check`:\n")
    _run_config_check(config)
    _print_next_steps(config, network_findings)


def _write_preset_config(config: Path, text: str, *, dry_run: bool) -> None:
    if dry_run:
        typer.echo(text, nl=False)
        return
    write_config(config, text)
    config_option = _format_config_option(config)
    typer.echo(
        f"wrote {config}:\n\n{extract_preset_notes(text)}\n\n"
        "Next:\n  read the comments in the file, and set what they name\n"
        f"  qos-oracle config check{config_option}\n  qos-oracle run{config_option}"
    )


def _prompt_for_option(
    option: str, question: str, default: str | None = None, *, yes: bool
) -> str:
    """Prompt for a value; with --yes, return the default or raise InputError."""
    if not yes:
        return str(typer.prompt(question, default=default, err=True)).strip()
    if default is None:
        raise InputError(f"--{option}: required with --yes")
    return default


def _prompt_for_profile(*, yes: bool) -> str:
    profile_names = ", ".join(list_shipped_profiles())
    return _prompt_for_option(
        "profile", f"Profile ({profile_names}, or a file)", "reference", yes=yes
    )


def _prompt_for_contracts(
    profile: str, option_addresses: Mapping[str, Address], *, yes: bool
) -> dict[str, Address]:
    """Prompt for missing addresses of the profile's contracts, and return all addresses."""
    profile_contracts = load_profile(profile).contracts
    unknown_names = sorted(option_addresses.keys() - profile_contracts.keys())
    if unknown_names:
        contract_names = ", ".join(profile_contracts)
        raise InputError(
            f"--contract {unknown_names[0]}: not in profile {profile}; expected one of: "
            f"{contract_names}"
        )
    address_by_contract = dict(option_addresses)
    for name, contract in profile_contracts.items():
        if name not in address_by_contract and contract.address is None:
            option = f"contract {name}=0x…"
            address_by_contract[name] = parse_required_address(
                _prompt_for_option(option, f"Address of {name}", yes=yes)
            )
    return address_by_contract


def _prompt_for_oracle(option_value: str | None, *, yes: bool) -> Address | None:
    address_text = option_value or (
        ""
        if yes
        else _prompt_for_option("oracle", "Oracle contract (empty: none yet)", "", yes=yes)
    )
    return parse_required_address(address_text) if address_text else None


def _inspect_network(inputs: NetworkInputs, start_block: int | None) -> NetworkFindings:
    """Measure the block rate, find the start block, and probe each endpoint."""
    rate = _measure_first_block_rate(inputs.endpoints)
    _print_progress(
        f"chain {rate.chain_id}, block {rate.head}, {rate.block_seconds:.1f} s a block"
    )
    actions = describe_on_chain_actions(load_profile(inputs.profile))
    _print_progress(f"profile {inputs.profile}, on chain: {actions}")
    reader = EventReader.from_profile(inputs.profile, inputs.contracts, inputs.oracle, {})
    with closing(EndpointPool.from_urls(inputs.endpoints, rate.chain_id)) as pool:
        clients = [rpc_endpoint.client for rpc_endpoint in pool]
        found_block = (
            _find_start_block(clients, reader.addresses, rate)
            if start_block is None
            else start_block
        )
        _print_progress(
            "start block not found" if found_block is None else f"start block {found_block}"
        )
        logs = LogFilter(frozenset(reader.addresses), frozenset(reader.topics))
        requirements = EndpointProber(pool, logs, found_block or 0).requirements
        probe_results = [
            probe_single_endpoint(position, rpc_endpoint, requirements, None)
            for position, rpc_endpoint in enumerate(pool, 1)
        ]
    print_probe_results(probe_results, err=True)
    websocket = next(
        filter(None, (find_websocket_url(url, rate.chain_id) for url in inputs.endpoints)), None
    )
    _print_progress(
        "no websocket found"
        if websocket is None
        else f"websocket {redact_url(websocket, ('ws', 'wss'), 'websocket')}"
    )
    finality, finality_reason = propose_finality(
        rate.block_seconds, _find_common_block_tags(probe_results)
    )
    return NetworkFindings(rate, websocket, found_block, finality, finality_reason)


def _measure_first_block_rate(urls: Iterable[str]) -> BlockRate:
    """Measure the block rate at the first endpoint that responds."""
    failures: list[OracleError] = []
    for url in urls:
        with closing(JsonRpcClient(url.strip())) as client:
            try:
                return measure_block_rate(client)
            except TransientError as error:
                failures.append(error)
    raise TransientError(f"--endpoint: no endpoint responds: {failures[0]}")


def _find_start_block(
    clients: Sequence[JsonRpcClient], contracts: Iterable[Address], rate: BlockRate
) -> int | None:
    """Return the block that deployed the first of the contracts.

    The result is from the first endpoint that has the state of old blocks. If there is no such
    endpoint, return None.
    """
    addresses = list(contracts)
    failures: list[TransientError] = []
    for client in clients:
        try:
            blocks = [find_deployment_block(client, address, rate.head) for address in addresses]
        except TransientError as error:
            failures.append(error)
            continue
        deployment_blocks = [block for block in blocks if block is not None]
        if len(deployment_blocks) == len(blocks):
            return min(deployment_blocks)
    if failures and len(failures) == len(clients):
        raise failures[0]
    return None


def _find_common_block_tags(probe_results: Iterable[ProbedEndpoint]) -> set[str]:
    """Return the block tags that every fit endpoint serves."""
    tag_sets = [set(result.facts.tags) for result in probe_results if result.fault is None]
    return set.intersection(*tag_sets) if tag_sets else set()


def _run_config_check(config: Path) -> None:
    """Run `config check` on the new file, which is kept even if it is faulty.

    The check sets the exit code.
    """
    check(config)


def _print_next_steps(config: Path, findings: NetworkFindings) -> None:
    blocks = findings.rate.head - (findings.start_block or 0)
    config_option = _format_config_option(config)
    typer.echo("\nNext:")
    history_duration = format_duration(round(blocks * findings.rate.block_seconds))
    for command, effect in (
        (
            f"run --once{config_option}",
            f"reads the {blocks:,} blocks up to now ({history_duration} of the chain)",
        ),
        (f"nodes{config_option}", "lists all nodes with scores; `explain NODE` gives the reasons"),
        (f"run{config_option}", "follows the chain; sends nothing without --publish"),
        ("contract deploy --help", "deploys the oracle contract, needed for on-chain reports"),
    ):
        typer.echo(f"  qos-oracle {command}\n      {effect}")


def _format_config_option(config: Path) -> str:
    return "" if config == DEFAULT_CONFIG else f" --config {config}"


def _print_progress(line: str) -> None:
    typer.echo(line, err=True)


def render_preset(network: str, endpoints: Sequence[str], database: str) -> str:
    """Render a public network's configuration, by default with its public endpoints.

    Raises:
        InputError: there is no preset of this name.
    """
    if network not in _PRESET_FILES:
        raise InputError(
            f"--network {network}: no such preset; expected one of: {', '.join(_PRESET_FILES)}"
        )
    text = find_shipped_path(_PRESET_FILES[network]).read_text("utf-8")
    text = _DATABASE.sub(lambda _: f"url = {json.dumps(database)}", text, count=1)
    if endpoints:
        urls_text = ", ".join(map(json.dumps, endpoints))
        text = _ENDPOINTS.sub(lambda _: f"endpoints = [{urls_text}]", text, count=1)
    return text


def extract_preset_notes(text: str) -> str:
    """Extract the comment at the top of a preset."""
    comment = text.partition("\n\n")[0]
    return "\n".join(line.removeprefix("# ") for line in comment.splitlines())
