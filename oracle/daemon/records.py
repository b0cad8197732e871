"""Opens the database with its rules, for commands that need no endpoint, contract or key."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from oracle.daemon.config.dispatch_section import build_dispatch_settings
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.ids import Address
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.indexer.rules_binding import check_bound_rules, find_replacement_rules
from oracle.store.database import Store, UnitOfWork


@dataclass(frozen=True, slots=True)
class Records:
    """The settings, the rule set, and a database whose schema matches the code."""

    config: Config
    rules: Rules
    store: Store

    @property
    def report_settings(self) -> ReportSettings:
        """The settings of `[oracle]` that determine what a report contains."""
        return build_report_settings(self.config.oracle, self.rules)

    @property
    def dispatch_settings(self) -> DispatchSettings | None:
        """The dispatcher's settings in `[dispatch]`, or None if no nodes are drawn."""
        return build_dispatch_settings(self.config.dispatch, self.rules)


def build_configured_rules(config: Config) -> Rules:
    """Build the configured rule set with its changes, or the rules that replaced it."""
    return config.rules.switched_rules or config.rules.build_rule_set()


@contextmanager
def open_records(config: Config, *, create: bool = False) -> Iterator[Records]:
    """Open the database with its rules, and close it on exit.

    The rules are the configured ones, or those to which the daemon has switched from them. With
    `create`, the tables of an empty database are created.

    Raises:
        InputError: the database cannot be opened, its schema does not match the code, or it
            belongs to another chain id, contract or start block.
    """
    configured_rules = config.rules.build_rule_set()
    with Store.open(config.database.url, create=create) as store:
        with store.read_transaction() as uow:
            _check_configured_identity(uow, config)
            switched_rules = find_replacement_rules(uow, configured_rules)
        rules_section = config.rules.with_switched_rules(switched_rules)
        opened_config = config.model_copy(update={"rules": rules_section})
        yield Records(opened_config, switched_rules or configured_rules, store)


def _check_configured_identity(uow: UnitOfWork, config: Config) -> None:
    """Check the database's identity except for the genesis block.

    Reading the genesis block requires an endpoint. With another contract, for example, no stored
    log would be decoded, and the output of a command would be empty.
    """
    stored_identity = uow.identity.get()
    if stored_identity is not None:
        contracts, oracle = get_configured_contracts(config)
        chain = config.chain
        uow.identity.check(
            replace(
                stored_identity,
                chain_id=chain.id,
                contracts=contracts,
                oracle=oracle,
                start_block=chain.start_block,
            )
        )


def get_configured_contracts(config: Config) -> tuple[dict[str, Address], Address | None]:
    """Return the network's contracts by name, and the oracle contract, if any."""
    contracts = {name: Address(address) for name, address in config.network.contracts.items()}
    return contracts, Address(config.oracle.address) if config.oracle.address else None


@contextmanager
def open_folded_records(config: Config) -> Iterator[Records]:
    """Open a database with folded state, and check that its rules are the configured rules.

    Raises:
        InputError: the database cannot be opened (see `open_records`), or its state was folded
            with other rules.
    """
    with open_records(config) as records:
        with records.store.read_transaction() as uow:
            check_bound_rules(uow, records.rules)
        yield records
