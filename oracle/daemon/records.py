"""The rules and the database: what a command without endpoint, contract and key needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oracle.daemon.config.dispatch_section import dispatch_settings
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import report_settings
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.indexer.rules_binding import refuse_other_rules
from oracle.store.database import Store
from oracle.systems.registry import rule_set


@dataclass(frozen=True, slots=True)
class Records:
    """The settings, the rule set of `[rules]`, and a database whose schema matches the code."""

    config: Config
    rules: Rules
    store: Store

    @property
    def report_settings(self) -> ReportSettings:
        """Return the settings of `[oracle]` that decide the content of a report."""
        return report_settings(self.config.oracle, self.rules)

    @property
    def dispatch_settings(self) -> DispatchSettings | None:
        """Return the settings of `[dispatch]`, or None if no node is drawn."""
        return dispatch_settings(self.config.dispatch, self.rules)


def configured_rules(config: Config) -> Rules:
    """Return the rule set of `[rules]` with its changes."""
    return rule_set(config.rules.set, config.rules.changes)


@contextmanager
def open_records(config: Config, *, create: bool = False) -> Iterator[Records]:
    """Open the database with the configured rules, and close it on exit.

    `create` creates the tables of an empty database.

    Raises:
        InputError: the database cannot be opened, or its schema does not match the code.
    """
    rules = configured_rules(config)
    with Store.open(config.database.url, create=create) as store:
        yield Records(config, rules, store)


@contextmanager
def open_folded_records(config: Config) -> Iterator[Records]:
    """Open the database for a command that reads folded state under the rules that folded it.

    Raises:
        InputError: as `open_records`, or the database was folded by other rules.
    """
    with open_records(config) as records:
        with records.store.reading() as uow:
            refuse_other_rules(uow, records.rules)
        yield records
