"""What `kickout propose` says where it does not go now: the same dry as in earnest."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from oracle.cli.main import run
from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.kickout_evidence import CreatorSpread
from tests.integration.cli.publishing.test_kickout_publishing import (
    chain,
    config,
    endpoint,
    fallen,
    fresh_chain,
    fresh_premises,
    node_of,
    office,
    premises,
    sqlite_office,
    sqlite_url,
)
from tests.integration.evm.test_kicking import POOL, kick
from tests.support.office import LIMITS, RULES

__all__ = [
    "chain",
    "config",
    "endpoint",
    "fallen",
    "fresh_chain",
    "fresh_premises",
    "office",
    "premises",
    "sqlite_office",
    "sqlite_url",
]

pytestmark = pytest.mark.slow

# Half of the scores may be one creator's.
HELD = replace(RULES, kick_creator_share=UNIT // 2)


def test_held_kickout_is_proposed_only_with_the_one_creator_option(
    office, config, endpoint, capsys, monkeypatch
):
    judged = CreatorSpread.find_hold_reason
    monkeypatch.setattr(CreatorSpread, "find_hold_reason", lambda spread, _: judged(spread, HELD))
    reason = f"held for an operator: {POOL} of its {POOL} scores come from one creator's tasks"
    assert run(["kickout", "list", "--config", config]) == 0
    listed = capsys.readouterr().out
    assert "can be proposed manually\n" in listed
    assert reason in listed

    command = ["kickout", "propose", node_of(office), "--config", config, "--yes"]
    assert run(command) == 2
    refused = capsys.readouterr().err
    assert reason in refused
    assert "`kickout propose --one-creator` proposes it anyway" in refused
    assert "eth_sendRawTransaction" not in endpoint.seen

    assert run([*command, "--one-creator"]) == 0
    office.mine()
    assert kick(office)["live"]


@pytest.mark.nightly
def test_kickout_that_was_already_tried_is_refused_in_dry_run_and_real_run(office, config, capsys):
    propose = ["kickout", "propose", node_of(office), "--config", config]
    # Its sender is paused: the proposal gets no nonce, and is called off.
    hold = ["outbox", "hold", office.context.account.address, "--config", config]
    assert run(hold) == 0
    assert run([*propose, "--yes"]) == 0
    waiting = capsys.readouterr().out
    assert "kickout proposal planned" in waiting
    assert run(["kickout", "cancel", node_of(office), "--config", config, "--yes"]) == 0

    messages = []
    for option in ("--dry-run", "--yes"):
        capsys.readouterr()
        assert run([*propose, option]) == 2
        messages.append(capsys.readouterr().err)
    assert messages[0] == messages[1]
    assert (
        f"the proposal signed on round {office.premises.round} was already tried: intent "
        in messages[0]
    )
    assert "is cancelled; see `qos-oracle outbox show " in messages[0]


def test_round_with_the_maximum_number_of_proposals_is_reported(office, config, capsys):
    premises = office.premises
    none = [getattr(LIMITS, field.name) for field in fields(LIMITS)]
    none[9] = 0
    call = premises.oracle.functions.setLimits(tuple(none))
    premises.chain.send(call, sender=premises.network.admin)
    office.index()
    assert run(["kickout", "propose", node_of(office), "--config", config, "--yes"]) == 0
    stdout = capsys.readouterr().out
    assert (
        f"nothing is sent: round {premises.round} has the maximum number of proposals (0)"
        in stdout
    )


@pytest.mark.parametrize("manner", ["--yes", "--dry-run"])
def test_pending_proposal_is_reported_with_its_intent(office, config, capsys, manner):
    propose = ["kickout", "propose", node_of(office), "--config", config]
    assert run([*propose, "--yes"]) == 0
    with office.store.read_transaction() as uow:
        (live,) = uow.outbox.intents.list_unfinished(office.context.account)
    capsys.readouterr()
    assert run([*propose, manner]) == 2
    stderr = capsys.readouterr().err
    assert f"another call for it (propose_kick {live.id}) is live" in stderr
    assert f"`qos-oracle outbox show {live.id}`" in stderr


def test_proposal_lacking_signatures_reports_missing_signers(office, config, capsys):
    premises = office.premises
    other_signers = ["0x" + 40 * "1", "0x" + 40 * "2"]
    named = [to_checksum_address(office.context.sender_account.signer.address), *other_signers]
    chosen = premises.oracle.functions.setSigners(named, 2)
    premises.chain.send(chosen, sender=premises.network.admin)
    office.index()
    with Path(config).open("a", encoding="utf-8") as file:
        # Nobody answers there.
        file.write('[reporters]\npeers = ["http://127.0.0.1:9"]\n')
    propose = ["kickout", "propose", node_of(office), "--config", config]
    assert run([*propose, "--yes"]) == 0
    stdout = capsys.readouterr().out
    assert "kickout signed" in stdout
    assert "nothing is sent: 1 of 2 signatures are collected" in stdout
    assert run([*propose, "--dry-run"]) == 2
    stderr = capsys.readouterr().err
    assert f"missing from {', '.join(other_signers)}" in stderr
