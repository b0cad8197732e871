"""With a round every six seconds and many due nodes, no kickout waits for long."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.chain.profiles.profile_loader import load_profile
from oracle.domain.coverage import VerificationLevel
from oracle.domain.reports.report import hash_rules_and_settings
from oracle.kickouts.kickout_context import PROPOSE_KICK
from oracle.kickouts.kickout_eligibility import KickoutRules, load_kickout_cases
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.kickouts.proposer import compute_round_capacity
from oracle.reporting.report_planner import plan_push
from oracle.txmgr.confirmer import confirm_transactions
from tests.integration.evm.test_kicking import PENDING, POOL, bad_pool, group, shown_low
from tests.support.evm.anvil import FREE_BY_HAND, anvil
from tests.support.evm.chain import Chain
from tests.support.office import LIMITS, RULES, SETTINGS, Office, Premises, next_step
from tests.support.sending.reporters import Company, company
from tests.support.txmgr.stores import NewStore

NODES = 20
# Nodes 0 and 1 are the good ones.
BAD = range(2, 2 + NODES)
ROUND_SECONDS, BETWEEN_SIGNATURES = 6, 5
# Every word is too old at every report, so that every period has a round.
QUICK = replace(SETTINGS, period_seconds=ROUND_SECONDS, heartbeat_seconds=1)
WITHIN_ROUNDS = 3


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """Yield a chain as in the other offices, with an account for every node."""
    with anvil(*FREE_BY_HAND, "--slots-in-an-epoch", "1", "--accounts", "30") as url:
        chain = Chain(url)
        try:
            yield chain
        finally:
            chain.close()


@pytest.fixture
def quick(premises: Premises, new_sqlite_store: NewStore, tmp_path: Path) -> Iterator[Company]:
    """Yield three reporters, all of whom must sign, under rules with quick rounds."""
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        new_sqlite_store() as third_store,
        company(premises, [first_store, second_store, third_store], tmp_path) as opened,
    ):
        does, admin = premises.oracle.functions, premises.network.admin
        rules_hash = hash_rules_and_settings(RULES, load_profile("reference").identity, QUICK)
        premises.chain.send(does.setRules(bytes.fromhex(rules_hash[2:])), sender=admin)
        checksummed = premises.chain.web3.to_checksum_address
        signers = [checksummed(reporter.signer) for reporter in opened.reporters]
        premises.chain.send(does.setSigners(signers, len(signers)), sender=admin)
        for reporter in opened.reporters:
            reporter.office.restart(settings=QUICK)
        yield opened


def many_bad(office: Office) -> None:
    """Rank every bad node last in as many groups as its pool has scores."""
    network = office.premises.network
    for place in BAD[1:]:
        network.join(network.nodes[place])
    for number in range(POOL * NODES):
        group(office, number + 1, (0, 1, BAD[number % NODES]))


def second(opened: Company, looking: int = 0) -> None:
    """Mine one more block; `looking` reporters plan kickouts once, and the first one sends.

    Planning for all due nodes takes a good part of a second, whatever its result is.
    """
    opened.chain.later(1)
    opened.chain.mine()
    for reporter in reversed(opened.reporters):
        office = reporter.office
        office.index()
        office.repeat(plan_push)
        if reporter in opened.reporters[:looking]:
            plan_kickout_call(office.kickouts, office.source.fetch_heads())
        if office.context.sender_account.has_payer:
            office.repeat(next_step)
            office.repeat(confirm_transactions)


def due(office: Office) -> int:
    """Return the number of nodes that could be proposed."""
    with office.store.read_transaction() as uow:
        kickout_cases = load_kickout_cases(
            uow, KickoutRules(RULES, QUICK), VerificationLevel.NOTHING
        )
    return sum(kickout_case.obstacle is None for kickout_case in kickout_cases)


def proposed_in(opened: Company) -> list[int]:
    """Return the round in which each bad node was proposed, 0 for none."""
    does, nodes = opened.premises.oracle.functions, opened.premises.network.nodes
    held = [does.nodeOf(nodes[place]).call() for place in BAD]
    return [int(round_) if kick == PENDING else 0 for _, kick, *_, round_, _ in held]


def test_kickouts_of_twenty_due_nodes_are_proposed_within_three_rounds(quick: Company):
    premises, office = quick.premises, quick.first.office
    many_bad(office)
    while due(office) < NODES:
        second(quick)
    due_in = premises.round
    for passed in range(WITHIN_ROUNDS * ROUND_SECONDS):
        second(quick, looking=1 + passed // BETWEEN_SIGNATURES)
    assert min(proposed_in(quick)) > due_in
    # One every six seconds, all the time.
    assert premises.round == due_in + WITHIN_ROUNDS
    # None was sent in vain.
    assert set(office.states(PROPOSE_KICK)) <= {"mined", "final"}


def room(office: Office) -> int:
    """Return how many more proposals the round allows."""
    standing = office.quorum.fetch_contract_status()
    with office.store.read_transaction() as uow:
        return compute_round_capacity(office.kickouts, uow, standing)


def test_landed_but_unconfirmed_proposal_counts_once_against_round_limit(sqlite_office: Office):
    office, max_kicks = sqlite_office, LIMITS.max_kicks_per_round
    bad_pool(office)
    shown_low(office)
    office.repeat(plan_kickout_call)
    assert (office.states()[-1], room(office)) == ("planned", max_kicks - 1)
    office.repeat(next_step)
    office.mine()
    office.index()
    assert (office.states()[-1], room(office)) == ("live", max_kicks - 1)

    # The next round has all its room, whatever became of its receipt.
    office.period()
    office.index()
    office.repeat(plan_push)
    office.repeat(next_step)
    office.mine()
    office.index()
    (proposal,) = office.intents(PROPOSE_KICK)
    assert (proposal.state.value, room(office)) == ("live", max_kicks)
