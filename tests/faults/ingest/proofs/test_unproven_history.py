"""`run --once` on a chain whose headers prove nothing, although [verify] requires proofs."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from devnet.fakechain.block_json import Json
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, log_faults, transport_faults
from oracle.daemon.compose import open_index
from oracle.daemon.config.loader import read_config
from oracle.daemon.records import open_records
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from tests.support.cli.daemon import start_daemon
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY
from tests.support.ingest.proofs import Site, add_provable_blocks
from tests.support.ingest.reading import add_fault, build_log_matcher


@pytest.fixture
def site(fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(fake_chain, tmp_path, capsys)


@pytest.fixture
def unprovable_chain(fake_chain: FakeChain) -> FakeChain:
    """Return a chain on which all endpoints show made-up roots and zero blooms."""
    add_provable_blocks(fake_chain)
    for place in (0, 1):
        add_fault(fake_chain, block_faults.build_wrong_receipts_root_fault(), place)
        add_fault(fake_chain, block_faults.build_zero_bloom_fault(), place)
    return fake_chain


def test_run_once_fails_if_history_is_unproven_at_a_single_endpoint(
    unprovable_chain: FakeChain, site: Site
):
    outcomes = [site.once(0) for _ in range(2)]
    _, status = site.tell("status")

    assert outcomes[0] == outcomes[1]
    code, output = outcomes[0]
    assert code == 1
    assert "is unproven and rests on a single endpoint" in output
    assert 'verify.history = "seamed"' in output
    assert "add a second one to [chain] endpoints" in output
    assert "UNPROVEN" in status
    assert site.rows() == site.truth()

    assert [site.once(0, history="seamed") for _ in range(2)] == [(0, ""), (0, "")]
    assert "UNPROVEN" not in site.tell("status")[1]


def test_agreement_of_a_second_endpoint_satisfies_the_required_level(
    unprovable_chain: FakeChain, site: Site
):
    assert site.once(0)[0] == 1

    assert site.once(0, 1) == (0, "")
    # Witnessed blocks stay witnessed.
    assert site.once(0) == (0, "")


def test_silent_second_endpoint_does_not_satisfy_the_required_level(
    unprovable_chain: FakeChain, site: Site
):
    methods = log_faults.LOG_AND_RECEIPT_METHODS
    silent = add_fault(
        unprovable_chain, transport_faults.build_http_status_fault(503, methods=methods), 1
    )

    code, output = site.once(0, 1)

    assert (code, "does not answer" in output) == (1, True)
    unprovable_chain.providers[1].faults.remove(silent)
    assert site.once(0, 1) == (0, "")


@pytest.fixture
def third_endpoint(unprovable_chain: FakeChain) -> FakeChain:
    """Return the unprovable chain with a third endpoint, which is listed last."""
    unprovable_chain.serve()
    add_fault(unprovable_chain, block_faults.build_wrong_receipts_root_fault(), 2)
    add_fault(unprovable_chain, block_faults.build_zero_bloom_fault(), 2)
    return unprovable_chain


def omit_last_network_log(chain: FakeChain) -> InjectedFault:
    """Return a fault that omits the last log of our contracts, which is in a final block."""
    return log_faults.build_omitted_logs_fault(build_log_matcher(chain.back(FINALITY + 4)))


def test_third_provider_disputes_an_omission_by_two_others(third_endpoint: FakeChain, site: Site):
    for place in (0, 1):
        add_fault(third_endpoint, omit_last_network_log(third_endpoint), place)

    outcomes = [site.once(0, 1, 2) for _ in range(2)]

    assert outcomes[0] == outcomes[1]
    code, output = outcomes[0]
    assert (code, "no proof shows which is right" in output) == (1, True)
    assert third_endpoint.urls[2] in output


def test_third_provider_cannot_overrule_two_agreeing_providers(
    third_endpoint: FakeChain, site: Site
):
    add_fault(third_endpoint, omit_last_network_log(third_endpoint), 2)

    code, output = site.once(0, 1, 2)

    assert (code, "no proof shows which is right" in output) == (1, True)
    assert site.rows() == site.truth()


def invent_network_log(chain: FakeChain) -> InjectedFault:
    """Return a fault that repeats the last log of our contracts at the next position."""
    number = hex(chain.back(FINALITY + 4).number)

    def repeat(logs: list[Json]) -> list[Json]:
        repeated = [log for log in logs if log["blockNumber"] == number][-1:]
        return logs + [{**log, "logIndex": hex(int(log["logIndex"], 16) + 5)} for log in repeated]

    return log_faults.build_changed_logs_fault("an invented log", repeat)


def forget_audits(site: Site, url: str) -> None:
    """Let the blocks that an endpoint has audited be audited again, as after a readmission."""
    with site.open_store() as store, store.transaction() as uow:
        uow.facts.quarantine.add(url, "had other logs")
        uow.facts.quarantine.readmit(url)


def accept_rows_of(site: Site, chain: FakeChain, place: int) -> None:
    """Settle every dispute in favour of one endpoint."""
    last = str(site.final())
    code, output = site.tell(
        "resync", "verify", "--from", "0", "--to", last, "--level", "seamed",
        "--endpoint", chain.urls[place], "--repair",
    )  # fmt: skip
    assert code == 0, output


def test_accepted_difference_is_not_reported_again(third_endpoint: FakeChain, site: Site):
    add_fault(third_endpoint, omit_last_network_log(third_endpoint), 2)
    assert site.once(0, 1, 2)[0] == 1
    accept_rows_of(site, third_endpoint, 0)
    assert site.once(0, 1, 2) == (0, "")

    for place in (0, 1):
        forget_audits(site, third_endpoint.urls[place])

    assert site.once(0, 1, 2) == (0, "")
    assert "UNPROVEN" not in site.tell("status")[1]


def test_further_difference_of_an_accepted_endpoint_is_reported(
    third_endpoint: FakeChain, site: Site
):
    last_block = third_endpoint.back(FINALITY + 4)
    add_fault(
        third_endpoint, log_faults.build_omitted_logs_fault(build_log_matcher(last_block)), 2
    )
    assert site.once(0, 1, 2)[0] == 1
    accept_rows_of(site, third_endpoint, 0)
    earlier_block = third_endpoint.back(FINALITY + 7)
    add_fault(
        third_endpoint, log_faults.build_omitted_logs_fault(build_log_matcher(earlier_block)), 2
    )
    for place in (0, 1):
        forget_audits(site, third_endpoint.urls[place])

    code, output = site.once(0, 1, 2)

    number = earlier_block.number
    assert (code, f"blocks {number} to {number} are unproven" in output) == (1, True)


def test_rejected_log_is_not_inserted_by_a_later_audit(third_endpoint: FakeChain, site: Site):
    add_fault(third_endpoint, invent_network_log(third_endpoint), 2)
    assert site.once(0, 1, 2)[0] == 1
    accept_rows_of(site, third_endpoint, 0)
    for place in (0, 1):
        forget_audits(site, third_endpoint.urls[place])

    # The endpoint with the invented log is now the only one that can audit.
    assert site.once(0, 2) == (0, "")
    assert site.rows() == site.truth()


def test_two_agreeing_providers_suffice_if_a_third_is_silent(
    third_endpoint: FakeChain, site: Site
):
    # Calibration waits for every provider, so it comes first.
    assert site.once(0)[0] == 1
    methods = log_faults.LOG_AND_RECEIPT_METHODS
    fault = transport_faults.build_http_status_fault(503, methods=methods)
    add_fault(third_endpoint, fault, 2)

    assert site.once(0, 1, 2) == (0, "")
    assert site.rows() == site.truth()


def test_two_urls_of_one_provider_count_as_one_witness(unprovable_chain: FakeChain, site: Site):
    assert site.once(0)[0] == 1
    urls = [f"{unprovable_chain.urls[0]}/{key}-key" for key in ("first", "second")]
    path = site.configured(*urls, 1)
    assert "no second endpoint has confirmed it yet" in site.tell("status")[1]

    # The only other provider is proven wrong.
    with (
        open_records(read_config(path)) as records,
        open_index(records) as index,
        records.store.transaction() as uow,
    ):
        uow.facts.quarantine.add(index.chain.list_endpoint_names()[2], "made logs up")

    assert "there is no second endpoint" in site.tell("status")[1]


def test_zero_bloom_not_covered_by_the_header_hash_proves_nothing(
    fake_chain: FakeChain, site: Site
):
    add_provable_blocks(fake_chain)
    for place in (0, 1):
        add_fault(fake_chain, block_faults.build_zero_bloom_fault(), place)

    code, output = site.once(0)

    assert (code, "(header_hash)" in output) == (1, True)
    assert site.once(0, 1) == (0, "")


def test_run_once_succeeds_on_a_chain_too_short_to_calibrate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with ExitStack() as stack:
        chain = FakeChain(stack)
        chain.serve()
        add_provable_blocks(chain, blocks=1)
        add_fault(chain, block_faults.build_wrong_receipts_root_fault())
        add_fault(chain, block_faults.build_zero_bloom_fault())
        site = Site(chain, tmp_path, capsys)

        assert site.once(0) == (0, "")

    assert "history is unproven" in site.tell("status")[1]


@pytest.mark.parametrize(("history", "is_ready"), [("proven", False), ("seamed", True)])
def test_daemon_is_ready_only_when_the_required_level_is_reached(
    unprovable_chain: FakeChain, site: Site, history: str, *, is_ready: bool
):
    with start_daemon(site.configured(0, history=history)) as running:
        running.url = running.wait_for("daemon_started")["web"]
        if is_ready:
            running.wait_until_ready()
        else:
            running.wait_for_text("/readyz", "is unproven and rests on a single endpoint")


@pytest.mark.parametrize("command", [("status",), ("run", "--once")])
@pytest.mark.parametrize(
    "old_dispute",
    ['{"first": 5, "last": 9, "giver": "a", "auditor": "b", "rows": 2}', '{"giver": "a"'],
    ids=["of an unreleased version", "cut off"],
)
def test_blocks_of_an_unreadable_dispute_are_audited_again_after_the_named_statements(
    unprovable_chain: FakeChain, site: Site, old_dispute: str, command: tuple[str, ...]
):
    assert site.once(0, 1) == (0, "")
    with site.open_store() as store, store.transaction() as uow:
        uow.facts.set(CHAIN_FACTS_KEY, {"disputed 5": old_dispute}, None)

    code, output = site.tell(*command)

    assert (code, output.count("\n"), "the dispute 'disputed 5'" in output) == (2, 1, True)
    statements = output.strip().split("in the database: ")[1].split("; ")
    with site.open_store() as store, store.transaction() as uow:
        for statement in statements:
            uow.facts._connection.exec_driver_sql(statement)
    assert "UNPROVEN" in site.tell("status")[1]
    assert site.once(0, 1) == (0, "")
    assert "UNPROVEN" not in site.tell("status")[1]
