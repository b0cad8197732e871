"""`init`: creates a working configuration from an endpoint and contract addresses."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from oracle.chain.log_filter import Filter
from oracle.chain.probe_schedule import Prober
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile_loader import open_profile, shipped_names
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, DryRunOption
from oracle.cli.setup.config_commands import check
from oracle.cli.setup.endpoint_commands import ProbedEndpoint, print_probed, probed
from oracle.cli.setup.network_survey import (
    BlockRate,
    FinalityProposal,
    block_rate,
    deployed_in,
    proposed_finality,
)
from oracle.cli.setup.profile_report import possible_on_chain
from oracle.cli.setup.written_values import address_in, named_address_in
from oracle.domain.ids import Address
from oracle.errors import InputError, OracleError, TransientError
from oracle.queries.text.human_numbers import span
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.pool import EndpointPool

# An endpoint URL may contain an API key.
_OWNER_ONLY = 0o600


class NetworkAnswers(NamedTuple):
    """The user's input about a network; `oracle` is None if nothing is reported yet."""

    endpoints: Sequence[str]
    profile: str
    contracts: Mapping[str, Address]
    oracle: Address | None
    database: str


class NetworkFindings(NamedTuple):
    """The findings about a network; `start_block` is None if no endpoint has old enough state."""

    rate: BlockRate
    start_block: int | None
    finality: FinalityProposal


def config_text(said: NetworkAnswers, found: NetworkFindings) -> str:
    """Return the configuration file; omitted settings keep defaults (see config/example.toml)."""
    contracts = ", ".join(f"{name} = {json.dumps(at)}" for name, at in said.contracts.items())
    start = (
        "# The block in which the first of the contracts was deployed, found by their code.\n"
        f"start_block = {found.start_block}"
        if found.start_block is not None
        else "# No endpoint has states so old that the block of the first contract can be found:\n"
        "# put it here, or all blocks from the first one on are read.\n"
        "start_block = 0"
    )
    return f"""\
# Made by `qos-oracle init`. What is left out has its default; config/example.toml has everything.

[database]
# SQLite keeps all in one file; PostgreSQL: "postgresql://oracle@localhost/oracle".
url = {json.dumps(said.database)}

[chain]
id = {found.rate.chain_id}
# The first does the work; name a second one of another provider, who can contradict it.
endpoints = [{", ".join(map(json.dumps, said.endpoints))}]
{start}
# When a block is final: {found.finality.why}.
finality_depth = {found.finality.depth}
finality_seconds = {found.finality.seconds}
# Blocks came every {found.rate.block_seconds:.1f} s of late.
poll_seconds = {found.rate.poll_seconds}

[network]
# How the contracts speak.
profile = {json.dumps(said.profile)}
contracts = {{ {contracts} }}

[oracle]
# contracts/QoSOracle.sol; without it everything is computed, and nothing can be reported.
{"# address =" if said.oracle is None else f"address = {json.dumps(said.oracle)}"}
# Sends reports; off: they are computed and shown only.
publish = false

[rules]
# `qos-oracle rules list` tells what each set is.
set = "crynux"
"""


def write_config(path: Path, text: str) -> None:
    """Write a new file that only its owner can read.

    Raises:
        InputError: the file already exists, or its folder is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        entry = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except FileExistsError:
        raise InputError(f"{path}: is there already; name another one by --config") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    with os.fdopen(entry, "w", encoding="utf-8") as file:
        file.write(text)


_EndpointsOption = Annotated[
    list[str] | None,
    typer.Option("--endpoint", metavar="URL", help="A JSON-RPC address; may be given again."),
]
_ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME", help="A shipped profile, or the path of your own."),
]
_ContractsOption = Annotated[
    list[str] | None,
    typer.Option("--contract", metavar="NAME=0x…", help="Where a contract of the profile is."),
]
_OracleOption = Annotated[
    str | None,
    typer.Option("--oracle", metavar="0x…", help="The oracle contract, if there is one yet."),
]
_DatabaseOption = Annotated[
    str, typer.Option("--database", metavar="URL", help="Where everything is kept.")
]
_StartOption = Annotated[
    int | None,
    typer.Option("--start-block", metavar="BLOCK", min=0, help="Do not look for it: it is this."),
]
_YesOption = Annotated[
    bool, typer.Option("--yes", help="Ask nothing: what no option says is proposed, or missing.")
]


def register(app: typer.Typer) -> None:
    """Register `init` on the command line."""
    example = "qos-oracle init --endpoint https://rpc.example.org --contract TaskNetwork=0x…"
    app.command("init", epilog=f"Example: {example}")(init)


def init(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    endpoint: _EndpointsOption = None,
    profile: _ProfileOption = None,
    contract: _ContractsOption = None,
    oracle: _OracleOption = None,
    database: _DatabaseOption = "sqlite:///qos-oracle.sqlite",
    start_block: _StartOption = None,
    yes: _YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Inspect a network, write its configuration, and check it.

    Missing options are prompted for. Finds the deployment block of the first contract, probes the
    endpoints as `endpoint probe` does, and proposes finality settings. Overwrites no file;
    --dry-run prints the configuration instead.
    """
    if config.exists() and not dry_run:
        raise InputError(f"{config}: is there already; name another one by --config")
    urls = endpoint or [_asked("endpoint", "Endpoint (a JSON-RPC address)", yes=yes)]
    named = profile or _profile(yes=yes)
    written = dict(map(named_address_in, contract or []))
    said = NetworkAnswers(
        endpoints=urls,
        profile=named,
        contracts=_contracts(named, written, yes=yes),
        oracle=_oracle(oracle, yes=yes),
        database=database,
    )
    found = _inspect_network(said, start_block)
    text = config_text(said, found)
    if dry_run:
        typer.echo(text, nl=False)
        return
    write_config(config, text)
    typer.echo(f"\nwrote {config}; `config check` of it:\n")
    _check(config)
    _tell_next(config, found)


def _asked(option: str, question: str, default: str | None = None, *, yes: bool) -> str:
    """Prompt for a value; with --yes return the default, or raise if there is none."""
    if not yes:
        return str(typer.prompt(question, default=default, err=True)).strip()
    if default is None:
        raise InputError(f"--{option}: is missing; without --yes it is asked for")
    return default


def _profile(*, yes: bool) -> str:
    names = ", ".join(shipped_names())
    return _asked("profile", f"Profile ({names}, or a file)", "reference", yes=yes)


def _contracts(profile: str, written: Mapping[str, Address], *, yes: bool) -> dict[str, Address]:
    """Return the address of each contract of the profile; prompt for missing ones."""
    known = open_profile(profile).contracts
    unknown = sorted(written.keys() - known.keys())
    if unknown:
        there = ", ".join(known)
        raise InputError(f"--contract {unknown[0]}: the profile {profile} reads {there}")
    placed = dict(written)
    for name, contract in known.items():
        if name not in placed and contract.address is None:
            option = f"contract {name}=0x…"
            placed[name] = address_in(_asked(option, f"Address of {name}", yes=yes))
    return placed


def _oracle(written: str | None, *, yes: bool) -> Address | None:
    said = written or (
        "" if yes else _asked("oracle", "Oracle contract (empty: none yet)", "", yes=yes)
    )
    return address_in(said) if said else None


def _inspect_network(said: NetworkAnswers, start_block: int | None) -> NetworkFindings:
    """Measure the block rate, find the start block and probe each endpoint."""
    rate = _rate(said.endpoints)
    _tell(f"chain {rate.chain_id}, block {rate.head}, {rate.block_seconds:.1f} s a block")
    _tell(f"profile {said.profile}, on chain: {possible_on_chain(open_profile(said.profile))}")
    reader = EventReader.open(said.profile, said.contracts, said.oracle, {})
    with closing(EndpointPool.open(said.endpoints, rate.chain_id)) as pool:
        clients = [one.client for one in pool]
        start = _start(clients, reader.addresses, rate) if start_block is None else start_block
        _tell("start block not found" if start is None else f"start block {start}")
        logs = Filter(frozenset(reader.addresses), frozenset(reader.topics))
        wanted = Prober(pool, logs, start or 0).wanted
        seen = [probed(place, one, wanted, None) for place, one in enumerate(pool, 1)]
    print_probed(seen, err=True)
    return NetworkFindings(rate, start, proposed_finality(rate.block_seconds, _tags(seen)))


def _rate(urls: Iterable[str]) -> BlockRate:
    """Return the block rate measured by the first endpoint that responds."""
    failures: list[OracleError] = []
    for url in urls:
        with closing(JsonRpcClient(url.strip())) as client:
            try:
                return block_rate(client)
            except TransientError as error:
                failures.append(error)
    raise TransientError(f"--endpoint: none answers: {failures[0]}")


def _start(
    clients: Sequence[JsonRpcClient], contracts: Iterable[Address], rate: BlockRate
) -> int | None:
    """Return the deployment block of the first contract, from an endpoint with old state."""
    addresses = list(contracts)
    failures: list[TransientError] = []
    for client in clients:
        try:
            blocks = [deployed_in(client, address, rate.head) for address in addresses]
        except TransientError as error:
            failures.append(error)
            continue
        known = [block for block in blocks if block is not None]
        if len(known) == len(blocks):
            return min(known)
    if failures and len(failures) == len(clients):
        raise failures[0]
    return None


def _tags(seen: Iterable[ProbedEndpoint]) -> set[str]:
    """Return the block tags served by every fit endpoint."""
    fit = [set(one.facts.tags) for one in seen if one.fault is None]
    return set.intersection(*fit) if fit else set()


def _check(config: Path) -> None:
    """Run `config check`; a fault sets the exit code, and the file is kept."""
    check(config)


def _tell_next(config: Path, found: NetworkFindings) -> None:
    blocks = found.rate.head - (found.start_block or 0)
    where = "" if config == DEFAULT_CONFIG else f" --config {config}"
    typer.echo("\nNext:")
    age = span(round(blocks * found.rate.block_seconds))
    for command, does in (
        (f"run --once{where}", f"reads the {blocks:,} blocks up to now ({age} of the chain)"),
        (f"nodes{where}", "shows every node with its score; `explain NODE` says why"),
        (f"run{where}", "goes on with the chain; sends nothing without --publish"),
        ("contract deploy --help", "puts the oracle contract on the chain, when you want reports"),
    ):
        typer.echo(f"  qos-oracle {command}\n      {does}")


def _tell(line: str) -> None:
    typer.echo(line, err=True)
