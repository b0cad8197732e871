"""Our key signed elsewhere: the daemon reports it, and signs nothing else for a while."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from oracle.bindings.qos_oracle import decode_kick_proposal, encode_propose_kick_call
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.quorum.key_watch import check_for_foreign_signatures
from oracle.quorum.statements import KICK
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.signing.typed_data import KickStatement
from oracle.store.database import Store
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.integration.evm.test_kicking import bad_pool, kick, kinds, node_two, proposed, shown_low
from tests.support.office import ETHER, SETTINGS, Office, Premises, key_files, sending_jobs_of
from tests.support.sending.faults import null, status
from tests.support.sending.proxy import Proxy

SENT = "eth_getTransactionByHash"


@pytest.fixture
def thief(premises: Premises, tmp_path: Path) -> Iterator[Office]:
    """Yield an office with our signer's key and its own payer."""
    payer = KeySigner.open(*key_files(tmp_path, "payer"))
    premises.chain.rpc("anvil_setBalance", payer.address, hex(ETHER))
    his = replace(premises, keys=ReporterKeys(premises.keys.signer, payer))
    with Store.open(f"sqlite:///{tmp_path}/elsewhere.sqlite", create=True) as store:
        opened = Office(his, store, tmp_path / "elsewhere")
        yield opened
        opened.close()


def watched(office: Office) -> list[dict[str, object]]:
    """Run the check for foreign signatures at the head, and return its log lines."""
    office.index()
    with capture_logs() as logs:
        office.repeat(check_for_foreign_signatures)
    return [dict(line) for line in logs if line["event"] == "unknown_signature_on_chain"]


def low_on_chain(office: Office) -> None:
    """Let the contract show node 2 below the line; its kickout is not proposed by us yet."""
    bad_pool(office)
    for _ in range(2):
        office.pushed()
    assert watched(office) == []
    assert kinds(office) == ["push", "push"]


def accused(office: Office) -> KickStatement:
    """Return a kickout statement against node 2 that a thief of our key could sign."""
    standing, evidence = office.contract.get_status(), Hash("0x" + 64 * "e")
    on, until = (standing.head.round, standing.last_report), standing.head.pushed_at + 100
    return KickStatement(standing.config, *on, node_two(office), evidence, until)


def proposed_by_hand(
    office: Office, statement: KickStatement, through: str | None = None, *other_signers: Signer
) -> None:
    """Send a statement of our key from another account, directly or `through` a contract."""
    premises, chain = office.premises, office.premises.chain
    keys = sorted(
        [office.context.sender_account.signer, *other_signers], key=lambda key: key.address
    )
    signatures = [
        key.sign_statement(statement, office.context.sender_account.domain) for key in keys
    ]
    call = {
        "from": premises.network.admin,
        "to": through or premises.address,
        "data": encode_propose_kick_call(statement, b"".join(signatures)),
        "gas": hex(1_000_000),
    }
    chain.rpc("eth_sendTransaction", call)
    office.mine()
    assert kick(office)["live"]


def two_of_three(office: Office) -> Signer:
    """Require two of three signers, and return the other signer that the test controls."""
    premises, other_signer = office.premises, office.context.sender_account.payer
    checksummed = premises.chain.web3.to_checksum_address
    signers = sorted(
        [office.context.sender_account.signer.address, other_signer.address, "0x" + 40 * "7"]
    )
    call = premises.oracle.functions.setSigners([checksummed(address) for address in signers], 2)
    premises.chain.send(call, sender=premises.network.admin)
    return other_signer


def middleman(office: Office) -> str:
    """Return the address of a contract that forwards every call to the oracle contract."""
    address = "0x" + 40 * "5"
    code = f"0x365f5f375f5f365f5f73{office.premises.address[2:]}5af100"
    office.premises.chain.rpc("anvil_setCode", address, code)
    return address


def kicks_signed(office: Office) -> int:
    """Return the number of statements against node 2 in this database."""
    about = office.premises.address, KICK
    with office.store.read_transaction() as uow:
        of, rounds = uow.statements.list_for_round, range(office.premises.round + 1)
        return sum(len(of(*about, number, node_two(office))) for number in rounds)


def counted() -> float:
    return REGISTRY.get_sample_value("oracle_quorum_unknown_signatures_total") or 0


def statements(office: Office) -> int:
    """Return the number of report statements in this database."""
    contract = office.premises.address
    with office.store.read_transaction() as uow:
        rounds = range(office.premises.round + 2)
        return sum(len(uow.statements.list_for_round(contract, "report", n)) for n in rounds)


def test_report_signed_elsewhere_with_own_key_is_logged_once_and_starts_embargo(
    office: Office, thief: Office
):
    assert watched(office) == []
    before = counted()
    thief.pushed()
    (line,) = watched(office)
    assert (line["round"], line["signer"]) == (1, office.context.sender_account.signer.address)
    assert "setSigners" in str(line["act"])
    assert counted() == before + 1

    # Across a restart too, until what was signed elsewhere can land no more.
    office.restart()
    embargoed_until = int(str(line["embargoed_until"]))
    for _ in range(30):
        office.period()
        office.tick()
        if statements(office):
            break
        assert watched(office) == []
    assert statements(office) == 1
    assert office.premises.chain.time > embargoed_until


def test_daemon_checks_for_foreign_signatures_before_signing(sqlite_office: Office, thief: Office):
    office = sqlite_office
    office.index()
    jobs = sending_jobs_of(office)
    assert jobs.advance_reports() is None
    thief.pushed()
    office.period()
    office.index()
    step = jobs.advance_reports()
    assert step is not None
    assert step["did"] == "signs nothing"
    jobs.advance_reports()
    assert statements(office) == 0


def test_own_reports_are_recognised_after_restart(sqlite_office: Office):
    office = sqlite_office
    assert watched(office) == []
    for _ in range(2):
        office.pushed()
        assert watched(office) == []
    office.restart()
    office.pushed()
    assert watched(office) == []


def test_reports_signed_before_initial_sync_are_not_logged(sqlite_office: Office, thief: Office):
    thief.pushed()
    assert watched(sqlite_office) == []
    thief.pushed()
    assert [line["round"] for line in watched(sqlite_office)] == [2]


def test_reports_signed_elsewhere_are_not_logged_while_rebuilt_key_is_under_embargo(
    sqlite_office: Office, thief: Office
):
    office = sqlite_office
    assert watched(office) == []
    domain, signer = (
        office.context.sender_account.domain,
        office.context.sender_account.signer.address,
    )
    until = office.premises.chain.time + SETTINGS.ttl_seconds
    with office.context.write_transaction() as uow:
        uow.statements.set_embargo(
            domain.chain_id, domain.contract, signer, until, office.context.stamp
        )
    thief.pushed()
    assert watched(office) == []
    with office.store.read_transaction() as uow:
        quiet = uow.statements.get_embargo_end(domain.chain_id, domain.contract, signer)
    assert quiet is not None
    assert quiet > until


def test_kickout_signed_elsewhere_with_own_key_is_logged_once_and_starts_embargo(
    office: Office,
):
    low_on_chain(office)
    before = counted()
    proposed_by_hand(office, accused(office))
    (line,) = watched(office)
    embargoed_until = int(str(line["embargoed_until"]))
    node = office.premises.network.nodes[2].lower()
    assert (line["signed"], line["round"]) == (f"kickout of {node}, evidence 0x{64 * 'e'}", 2)
    assert "vetoer" in str(line["act"])
    assert counted() == before + 1

    office.restart()
    signed = statements(office)
    for _ in range(30):
        office.period()
        office.tick()
        if statements(office) > signed:
            break
        assert watched(office) == []
    assert statements(office) == signed + 1
    assert office.premises.chain.time > embargoed_until


def test_own_kickout_is_recognised_whoever_sends_it(
    sqlite_office: Office,
):
    office = sqlite_office
    assert watched(office) == []
    bad_pool(office)
    shown_low(office)
    office.repeat(plan_kickout_call)
    assert kicks_signed(office) == 1
    (proposal,) = [intent for intent in office.intents() if intent.request.kind == "propose_kick"]
    config = office.contract.get_status().config
    statement = decode_kick_proposal(proposal.request.calldata, config)
    proposed_by_hand(office, statement, middleman(office))
    assert watched(office) == []


def test_own_proposal_is_not_logged_as_signed_elsewhere(sqlite_office: Office):
    office = sqlite_office
    assert watched(office) == []
    proposed(office)
    assert (watched(office), kicks_signed(office)) == ([], 1)


def test_kickout_with_hidden_signatures_is_attributed_to_the_only_signer(
    sqlite_office: Office,
):
    office = sqlite_office
    low_on_chain(office)
    proposed_by_hand(office, accused(office), middleman(office))
    assert [line["round"] for line in watched(office)] == [2]


def test_kickout_with_hidden_signatures_is_not_attributed_when_there_are_several_signers(
    sqlite_office: Office,
):
    office = sqlite_office
    low_on_chain(office)
    other_signer = two_of_three(office)
    proposed_by_hand(office, accused(office), middleman(office), other_signer)
    office.index()
    with capture_logs() as logs:
        assert office.repeat(check_for_foreign_signatures) == []
        assert office.repeat(check_for_foreign_signatures) == []
    assert [line["event"] for line in logs] == ["proposal_decode_failed"]


def test_kickout_unavailable_at_all_endpoints_is_requested_until_returned(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    low_on_chain(office)
    proposed_by_hand(office, accused(office))
    for proxy in proxies:
        proxy.rule(SENT, status(503))
    office.index()
    with pytest.raises(TransientError):
        office.repeat(check_for_foreign_signatures)
    for proxy in proxies:
        proxy.heal()
    assert [line["round"] for line in watched(office)] == [2]


def test_kickout_missing_at_one_endpoint_is_fetched_from_next(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    low_on_chain(office)
    other_signer = two_of_three(office)
    proposed_by_hand(office, accused(office), None, other_signer)
    proxies[0].rule(SENT, null())
    assert [line["round"] for line in watched(office)] == [2]
