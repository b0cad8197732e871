"""A push from its report to its finality, on a real chain and both databases."""

from tests.evm.fixtures import chain
from tests.office import Office
from tests.services.office_fixtures import (
    fresh_chain,
    fresh_premises,
    office,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "office", "premises", "sqlite_office"]


def test_a_report_becomes_a_round_on_chain(office: Office):
    office.period()
    office.tick()
    office.mine()
    office.tick()

    assert office.premises.round == 1
    assert office.states() == ["mined"]

    office.until_final()
    assert office.states() == ["final"]
    assert ("landed", None) in office.reports()
