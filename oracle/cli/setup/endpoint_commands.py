"""Implements `endpoint`, which probes endpoints and readmits quarantined ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from oracle.chain.fetch.limit_memory import MAX_LOGS_FACT, OMITS_LOGS_FACT
from oracle.chain.probe_schedule import EndpointProber
from oracle.chain.source import ChainSource
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.cli.write_session import open_write_session
from oracle.daemon.chain_endpoints import CapabilityCache, build_log_filter, open_chain
from oracle.daemon.config.loader import Config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.blocks import format_block_count
from oracle.errors import InputError
from oracle.indexer.provenance import build_ingest_scope
from oracle.queries.endpoint_view import EndpointReadmission, ProbedEndpointEntry
from oracle.queries.text.text_tables import print_table, sanitize_text
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import Capabilities, ProbeRequirements, probe_endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.store.database import Store
from oracle.store.schema import SchemaAge, inspect_schema
from oracle.telemetry.safe_text import escape_unprintable

_COLUMNS = (
    *("#", "chain", "client", "head", "lag"),
    *("tags", "serves", "batch", "logs from", "anchor"),
)
_TEXT_COLUMNS = ("client", "tags", "serves", "anchor")
_MAX_CLIENT_LENGTH = 24

# Advice for errors that an operator can resolve. The others are transient or need no advice.
_ADVICE = {
    ErrorKind.REFUSED: "check the API key in its URL",
    ErrorKind.UNREACHABLE: "check that it is running and that its URL is correct",
    ErrorKind.THROTTLED: "try again later, or get a higher rate limit",
}
_WRONG_CHAIN_ADVICE = (
    "remove it from chain.endpoints, or correct chain.id, the anchor or the database"
)
_NO_HISTORY_ADVICE = "add another endpoint that keeps its history"
_TRUNCATION_NOTE = "smaller ranges are requested, and results need a proof or a second endpoint"

endpoint = typer.Typer(no_args_is_help=True)


class ProbedEndpoint(NamedTuple):
    """The result of probing an endpoint; `fault` tells why it is unfit, or is None.

    `position` counts the endpoints in the settings from 1. `most_logs` and `omits_logs` are limits
    of the endpoint that the daemon learned while reading.
    """

    position: int
    name: str
    facts: Capabilities
    fault: str | None
    most_logs: int | None = None
    omits_logs: bool = False

    @property
    def verdict(self) -> str:
        """Return whether the endpoint is fit, with its known limitations."""
        if self.fault is not None:
            return self.fault
        if self.omits_logs:
            return f"fit, but omits logs from ranges without an error; {_TRUNCATION_NOTE}"
        if self.most_logs is not None:
            return f"fit, but stops at {self.most_logs} logs without an error; {_TRUNCATION_NOTE}"
        return "fit"


def register(app: typer.Typer) -> None:
    app.add_typer(
        endpoint, name="endpoint", help="Probe the RPC endpoints and readmit quarantined ones."
    )


@endpoint.command("probe", epilog="Example: qos-oracle endpoint probe --endpoint 2 --json")
def probe_endpoints(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    position: Annotated[
        int | None,
        typer.Option(
            "--endpoint",
            min=1,
            help=(
                "Probe only this endpoint: its position in chain.endpoints, from 1. Default: all."
            ),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Probe the endpoints for their capabilities.

    The daemon does the same every hour. Sends about twenty requests to each endpoint, and one
    batch of a hundred. Exit code 1 if an endpoint is unfit.
    """
    loaded_config = load_config(config)
    with _open_store_if_current(loaded_config) as store:
        capability_cache = CapabilityCache(store, unix_seconds)
        with open_chain(loaded_config, open_reader(loaded_config), capability_cache) as chain:
            requirements = _build_probe_requirements(loaded_config, chain, store)
            selected_endpoints = _select_endpoints(list(chain.endpoints), position)
            states = chain.endpoints.describe_states()
            proven_wrong = chain.get_proven_wrong_endpoints()
            exclusion_reasons = {name: states[name] for name in proven_wrong}
            probe_results = [
                _add_learned_limits(
                    capability_cache,
                    probe_single_endpoint(
                        endpoint_number,
                        endpoint,
                        requirements,
                        exclusion_reasons.get(endpoint.name),
                    ),
                )
                for endpoint_number, endpoint in selected_endpoints
            ]
    if as_json:
        print_model([_build_entry(endpoint, probe_results) for endpoint in probe_results])
    else:
        print_probe_results(probe_results)
    if any(result.fault for result in probe_results):
        raise typer.Exit(1)


def print_probe_results(results: list[ProbedEndpoint], *, err: bool = False) -> None:
    """Print the probe results and the verdict on each endpoint."""
    print_table(
        _COLUMNS,
        [_format_row(result, results) for result in results],
        _TEXT_COLUMNS,
        to_stderr=err,
    )
    typer.echo(err=err)
    for result in results:
        typer.echo(
            f"{result.position}  {result.name}: {escape_unprintable(result.verdict)}", err=err
        )


@endpoint.command(
    "readmit", epilog="Example: qos-oracle endpoint readmit https://rpc.example.org --dry-run"
)
def readmit(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the endpoint, as in `status`.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Readmit an endpoint that was quarantined after it was proven wrong.

    The daemon never readmits an endpoint by itself. Data that only this endpoint supplied counts
    as trusted afterwards, so let the audit finish first if another endpoint responds (`status`
    shows the number of unaudited blocks).
    """
    with open_records(load_config(config)) as records:
        with records.store.read_transaction() as uow:
            reason = uow.facts.quarantine.get_reason_by_endpoint().get(name)
            if reason is None:
                raise InputError(
                    f"{name}: this endpoint is not proven wrong; see the endpoints in `qos-oracle "
                    "status`"
                )
            unaudited_blocks = uow.facts.quarantine.count_suspect_blocks(
                build_ingest_scope(open_reader(records.config)).id, name
            )
        if not dry_run:
            with open_write_session(records.store, "endpoint readmit", dry_run=False) as (uow, _):
                uow.facts.quarantine.readmit(name)
    if as_json:
        print_model(
            EndpointReadmission(
                endpoint=name,
                readmitted=not dry_run,
                reason=reason,
                unaudited_blocks=unaudited_blocks,
            )
        )
        return
    verb = "would be" if dry_run else "is"
    typer.echo(f"{name} {verb} readmitted; it was proven wrong: {reason}")
    if unaudited_blocks:
        typer.echo(
            f"data of {format_block_count(unaudited_blocks)} came only from this endpoint and is "
            "not audited"
        )


@contextmanager
def _open_store_if_current(config: Config) -> Iterator[Store | None]:
    """Open the database, or yield None if its schema is missing or of another version."""
    if inspect_schema(config.database.url).age is not SchemaAge.CURRENT:
        yield None
        return
    with open_records(config) as records:
        yield records.store


def _build_probe_requirements(
    config: Config, chain: ChainSource, store: Store | None
) -> ProbeRequirements:
    """Return what the configuration and the database require of an endpoint."""
    if store is not None:
        with store.read_transaction() as uow:
            identity = uow.identity.get()
        if identity is not None:
            chain.add_checkpoint(0, identity.genesis_hash, "the database")
    reader = open_reader(config)
    return EndpointProber(
        chain.endpoints, build_log_filter(reader), config.chain.start_block
    ).requirements


def _select_endpoints(
    endpoints: list[Endpoint], position: int | None
) -> list[tuple[int, Endpoint]]:
    numbered_endpoints = list(enumerate(endpoints, 1))
    if position is None:
        return numbered_endpoints
    if position > len(numbered_endpoints):
        raise InputError(
            f"--endpoint {position}: chain.endpoints has only {len(numbered_endpoints)} endpoints"
        )
    return [numbered_endpoints[position - 1]]


def probe_single_endpoint(
    position: int,
    rpc_endpoint: Endpoint,
    requirements: ProbeRequirements,
    exclusion_reason: str | None,
) -> ProbedEndpoint:
    """Probe an endpoint, unless it is quarantined.

    `exclusion_reason` is the reason of the quarantine, or None.
    """
    if exclusion_reason is not None:
        # A quarantined endpoint gets no requests, not even probes.
        return ProbedEndpoint(position, rpc_endpoint.name, Capabilities(), exclusion_reason)
    try:
        endpoint_facts = probe_endpoint(rpc_endpoint.client, requirements)
    except RpcError as error:
        advice = f"; {_ADVICE[error.kind]}" if error.kind in _ADVICE else ""
        fault = f"{error.kind}: {error.detail}{advice}"
        return ProbedEndpoint(position, rpc_endpoint.name, Capabilities(), fault)
    return ProbedEndpoint(
        position,
        rpc_endpoint.name,
        endpoint_facts,
        _find_unfit_reason(endpoint_facts, requirements.first_block),
    )


def _add_learned_limits(facts: CapabilityCache, result: ProbedEndpoint) -> ProbedEndpoint:
    """Add the limits that the daemon learned and stored to a probe result."""
    learned_facts = facts.load_facts(result.name)
    max_logs_text = learned_facts.get(MAX_LOGS_FACT, "")
    return result._replace(
        most_logs=int(max_logs_text) if max_logs_text.isdecimal() else None,
        omits_logs=learned_facts.get(OMITS_LOGS_FACT) == "1",
    )


def _find_unfit_reason(facts: Capabilities, first_block: int) -> str | None:
    """Return why an endpoint is unfit, with advice, or None if it is fit."""
    if facts.fault is not None:
        return f"{facts.fault}; {_WRONG_CHAIN_ADVICE}"
    if facts.oldest_log_block is None:
        return f"returns no logs; {_NO_HISTORY_ADVICE}"
    if facts.oldest_log_block > first_block:
        return (
            f"has no logs of blocks {first_block} to {facts.oldest_log_block - 1}; "
            f"{_NO_HISTORY_ADVICE}"
        )
    return None


def _compute_block_lag(result: ProbedEndpoint, results: list[ProbedEndpoint]) -> int | None:
    """Return how many blocks an endpoint is behind the highest head of all probed endpoints."""
    heads = [result.facts.head.number for result in results if result.facts.head is not None]
    return None if result.facts.head is None else max(heads) - result.facts.head.number


def _format_row(result: ProbedEndpoint, results: list[ProbedEndpoint]) -> list[str]:
    facts = result.facts
    lag = _compute_block_lag(result, results)
    supported_methods = [
        *(["logs by hash"] if facts.has_logs_by_hash else []),
        *(["receipts"] if facts.has_block_receipts else []),
    ]
    return [
        str(result.position),
        _format_number(facts.chain_id),
        sanitize_text(facts.client or "-", _MAX_CLIENT_LENGTH),
        _format_number(None if facts.head is None else facts.head.number),
        _format_number(lag),
        ", ".join(facts.tags) or "-",
        ", ".join(supported_methods) or "-",
        _format_number(None if facts.head is None else facts.max_batch_size),
        _format_number(facts.oldest_log_block),
        {None: "-", True: "matches", False: "DIFFERS"}[facts.shows_checkpoint],
    ]


def _format_number(number: int | None) -> str:
    return "-" if number is None else str(number)


def _build_entry(
    probed_endpoint: ProbedEndpoint, results: list[ProbedEndpoint]
) -> ProbedEndpointEntry:
    facts = probed_endpoint.facts
    return ProbedEndpointEntry(
        position=probed_endpoint.position,
        endpoint=probed_endpoint.name,
        chain_id=facts.chain_id,
        client=facts.client,
        head=None if facts.head is None else facts.head.number,
        lag_blocks=_compute_block_lag(probed_endpoint, results),
        tags=list(facts.tags),
        logs_by_hash=facts.has_logs_by_hash,
        block_receipts=facts.has_block_receipts,
        batch=facts.max_batch_size,
        oldest_logs=facts.oldest_log_block,
        anchor=facts.shows_checkpoint,
        most_logs=probed_endpoint.most_logs,
        omits_logs=probed_endpoint.omits_logs,
        fault=probed_endpoint.fault,
    )
