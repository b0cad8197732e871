"""`endpoint probe` and `readmit`: capabilities and fitness of the configured endpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from oracle.chain.fetch.limit_memory import MOST_LOGS, OMITS
from oracle.chain.probe_schedule import Prober
from oracle.chain.source import ChainSource
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_answer,
)
from oracle.cli.write_session import acting
from oracle.daemon.compose import open_chain, open_reader, wanted_logs
from oracle.daemon.config.loader import Config
from oracle.daemon.endpoints.capability_cache import CapabilityCache
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.indexer.provenance import scope_of
from oracle.queries.endpoint_view import EndpointReadmission, ProbedEndpointEntry
from oracle.queries.text.text_tables import foreign, print_table
from oracle.rpc.endpoints.capabilities import Capabilities
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.probe import ProbeRequirements, probe
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from oracle.store.database import Store
from oracle.store.schema import SchemaAge, schema_state
from oracle.telemetry.safe_text import escaped

_COLUMNS = (
    *("#", "chain", "client", "head", "lag"),
    *("tags", "serves", "batch", "logs from", "anchor"),
)
_TEXT = ("client", "tags", "serves", "anchor")
_LONGEST_CLIENT = 24

# Advice for errors that an operator can resolve; others are transient or self-explanatory.
_ADVICE = {
    ErrorKind.REFUSED: "put the key in its address right",
    ErrorKind.UNREACHABLE: "is it up, and its address right?",
    ErrorKind.THROTTLED: "ask again later, or for a higher limit",
}
_OTHER_CHAIN = "take it out of chain.endpoints, or put chain.id, the anchor or the database right"
_NO_HISTORY = "name another one as well that keeps its history"
_CAPPED = "it is asked for less, and a proof or another endpoint must tell"

endpoint = typer.Typer(no_args_is_help=True)


class ProbedEndpoint(NamedTuple):
    """The probe result of one endpoint; `fault` is the reason why it is unfit.

    `position` counts the endpoints in the settings from 1. `most_logs` and `omits_logs` are limits
    that the daemon learned while reading.
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
            return f"fit, but its ranges leave logs out without a word; {_CAPPED}"
        if self.most_logs is not None:
            return f"fit, but stops at {self.most_logs} logs without a word; {_CAPPED}"
        return "fit"


def register(app: typer.Typer) -> None:
    """Register `endpoint` on the command line."""
    app.add_typer(endpoint, name="endpoint", help="The endpoints of the chain, and how they are.")


@endpoint.command("probe", epilog="Example: qos-oracle endpoint probe --endpoint 2 --json")
def probe_endpoints(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    position: Annotated[
        int | None,
        typer.Option(
            "--endpoint", min=1, help="Only this one, counted from 1 in chain.endpoints."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Probe the endpoints for their capabilities.

    The daemon does the same every hour. Sends about twenty requests to each endpoint, and one
    batch of a hundred. Exit code 1 if an endpoint is unfit.
    """
    settings = load_config(config)
    with _opened_store(settings) as store:
        facts = CapabilityCache(store, unix_seconds)
        with open_chain(settings, open_reader(settings), facts) as chain:
            wanted = _wanted(settings, chain, store)
            chosen = _chosen(list(chain.endpoints), position)
            states, wrong = chain.endpoints.states(), chain.proven_wrong()
            shut_out = {name: states[name] for name in wrong}
            found = [
                _with_learned_limits(
                    facts, probed(place, endpoint, wanted, shut_out.get(endpoint.name))
                )
                for place, endpoint in chosen
            ]
    if as_json:
        print_answer([_entry(endpoint, found) for endpoint in found])
    else:
        print_probed(found)
    if any(one.fault for one in found):
        raise typer.Exit(1)


def print_probed(found: list[ProbedEndpoint], *, err: bool = False) -> None:
    """Print the probe results and the verdict on each endpoint."""
    print_table(_COLUMNS, [_row(one, found) for one in found], _TEXT, err=err)
    typer.echo(err=err)
    for one in found:
        typer.echo(f"{one.position}  {one.name}: {escaped(one.verdict)}", err=err)


@endpoint.command(
    "readmit", epilog="Example: qos-oracle endpoint readmit https://rpc.example.org --dry-run"
)
def readmit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which one, as `status` shows it.")],
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
        with records.store.reading() as uow:
            reason = uow.facts.quarantine.reasons().get(name)
            if reason is None:
                raise InputError(f"{name} was not proven wrong; `qos-oracle status` shows who was")
            left = uow.facts.quarantine.blocks(scope_of(open_reader(records.config)).id, name)
        if not dry_run:
            with acting(records.store, "endpoint readmit", dry_run=False) as (uow, _):
                uow.facts.quarantine.readmit(name)
    if as_json:
        print_answer(
            EndpointReadmission(
                endpoint=name, readmitted=not dry_run, reason=reason, unaudited_blocks=left
            )
        )
        return
    state = "would be" if dry_run else "is"
    typer.echo(f"{name} {state} asked again; it was proven wrong: {reason}")
    if left:
        typer.echo(f"{left} blocks that it alone gave were never asked about elsewhere")


@contextmanager
def _opened_store(config: Config) -> Iterator[Store | None]:
    """Open the database; yield None if its schema is missing or of another version."""
    if schema_state(config.database.url).age is not SchemaAge.CURRENT:
        yield None
        return
    with open_records(config) as records:
        yield records.store


def _wanted(config: Config, chain: ChainSource, store: Store | None) -> ProbeRequirements:
    """Return the endpoint requirements of the configuration and of its database, if present."""
    if store is not None:
        with store.reading() as uow:
            identity = uow.identity.get()
        if identity is not None:
            chain.hold(0, identity.genesis_hash, "the database")
    reader = open_reader(config)
    return Prober(chain.endpoints, wanted_logs(reader), config.chain.start_block).wanted


def _chosen(endpoints: list[Endpoint], position: int | None) -> list[tuple[int, Endpoint]]:
    every = list(enumerate(endpoints, 1))
    if position is None:
        return every
    if position > len(every):
        raise InputError(f"--endpoint {position}: chain.endpoints names {len(every)}")
    return [every[position - 1]]


def probed(
    position: int, one: Endpoint, wanted: ProbeRequirements, shut_out: str | None
) -> ProbedEndpoint:
    """Probe one endpoint; a quarantined one is not contacted.

    `exclusion_reason` is the reason of the quarantine, or None.
    """
    if shut_out is not None:
        # A quarantined endpoint gets no requests at all.
        return ProbedEndpoint(position, one.name, Capabilities(), shut_out)
    try:
        facts = probe(one.client, wanted)
    except RpcError as error:
        advice = f"; {_ADVICE[error.kind]}" if error.kind in _ADVICE else ""
        fault = f"{error.kind}: {error.words}{advice}"
        return ProbedEndpoint(position, one.name, Capabilities(), fault)
    return ProbedEndpoint(position, one.name, facts, _unfit(facts, wanted.first))


def _with_learned_limits(facts: CapabilityCache, one: ProbedEndpoint) -> ProbedEndpoint:
    """Add the limits that the daemon stored in the database, if there is one."""
    kept = facts.recall(one.name)
    most = kept.get(MOST_LOGS, "")
    return one._replace(
        most_logs=int(most) if most.isdecimal() else None, omits_logs=kept.get(OMITS) == "1"
    )


def _unfit(facts: Capabilities, first: int) -> str | None:
    """Return why an endpoint is unfit, with advice, or None if it is fit."""
    if facts.fault is not None:
        return f"{facts.fault}; {_OTHER_CHAIN}"
    if facts.oldest_logs is None:
        return f"gives no logs; {_NO_HISTORY}"
    if facts.oldest_logs > first:
        return f"has no logs of blocks {first} to {facts.oldest_logs - 1}; {_NO_HISTORY}"
    return None


def _lag(one: ProbedEndpoint, found: list[ProbedEndpoint]) -> int | None:
    """Return how many blocks an endpoint is behind the best of the probed ones."""
    heads = [other.facts.head.number for other in found if other.facts.head is not None]
    return None if one.facts.head is None else max(heads) - one.facts.head.number


def _row(one: ProbedEndpoint, found: list[ProbedEndpoint]) -> list[str]:
    facts, lag = one.facts, _lag(one, found)
    serves = [
        *(["logs by hash"] if facts.has_logs_by_hash else []),
        *(["receipts"] if facts.has_block_receipts else []),
    ]
    return [
        str(one.position),
        _or_dash(facts.chain_id),
        foreign(facts.client or "-", _LONGEST_CLIENT),
        _or_dash(None if facts.head is None else facts.head.number),
        _or_dash(lag),
        ", ".join(facts.tags) or "-",
        ", ".join(serves) or "-",
        _or_dash(None if facts.head is None else facts.batch),
        _or_dash(facts.oldest_logs),
        {None: "-", True: "ours", False: "NOT OURS"}[facts.checkpoint],
    ]


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)


def _entry(probed_endpoint: ProbedEndpoint, found: list[ProbedEndpoint]) -> ProbedEndpointEntry:
    facts = probed_endpoint.facts
    return ProbedEndpointEntry(
        position=probed_endpoint.position,
        endpoint=probed_endpoint.name,
        chain_id=facts.chain_id,
        client=facts.client,
        head=None if facts.head is None else facts.head.number,
        lag_blocks=_lag(probed_endpoint, found),
        tags=list(facts.tags),
        logs_by_hash=facts.has_logs_by_hash,
        block_receipts=facts.has_block_receipts,
        batch=facts.batch,
        oldest_logs=facts.oldest_logs,
        anchor=facts.checkpoint,
        most_logs=probed_endpoint.most_logs,
        omits_logs=probed_endpoint.omits_logs,
        fault=probed_endpoint.fault,
    )
