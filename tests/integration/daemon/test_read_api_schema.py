"""The read API over an indexed chain, checked against its own OpenAPI schema by schemathesis.

Every operation gets valid and invalid requests, for existing and missing records. Each response
must have a status, a content type and a body of the schema.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from eth_utils.address import is_checksum_address
from fastapi.testclient import TestClient
from hypothesis import given, strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from devnet.demo.show import START_TIME
from oracle.daemon.compose import serialize_configured_rules
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.config.loader import read_config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_folded_records
from oracle.daemon.web.api.read_api import create_read_api
from oracle.domain.ids import Address
from oracle.indexer.event_archive import EventArchive
from oracle.kickouts.objection_intake import IntakeSettings, ObjectionIntake
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource
from oracle.signing.typed_data import Domain
from tests.support.cli.played_chain import played_chain
from tests.support.examples import examples

__all__ = ["played_chain"]

pytestmark = [pytest.mark.slow, pytest.mark.evm, pytest.mark.timeout(900)]

SCHEMA = "/v1/openapi.json"
# The stream has no end: it is tested here without permitted listeners, and otherwise in
# test_serving.py.
ENDLESS = "/v1/events"
ANSWERS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
Known = dict[str, list[str]]


@pytest.fixture(scope="module")
def app(played_chain) -> Iterator[Any]:
    with open_folded_records(read_config(played_chain)) as opened:
        reader = open_reader(opened.config)
        archive = EventArchive(opened.store, reader, opened.rules)
        domain = Domain(opened.config.chain.id, Address("0x" + 40 * "e"))
        intake_settings = IntakeSettings(domain, opened.rules, 30, 5_000_000)
        source = ApiSource(
            archive,
            NodeRankingCache(opened.rules),
            lambda: None,
            lambda: START_TIME,
            lambda _held: "a daemon",
            rules_id=serialize_configured_rules(opened.config, reader),
            objection_intake=ObjectionIntake(opened.store.open_unfenced_store(), intake_settings),
        )
        evidence = opened.config.oracle.evidence_folder
        yield create_read_api(source, streams=ApiSection(max_streams=0), evidence_folder=evidence)


@pytest.fixture(scope="module")
def schema(app) -> Any:
    return openapi.from_asgi(SCHEMA, app)


@pytest.fixture(scope="module")
def path_values(app, played_chain) -> Known:
    """Return existing values by the name of the path parameter."""
    client = TestClient(app)
    nodes = [row["node"] for row in client.get("/v1/nodes").json()["nodes"]]
    explanation_text = client.get(f"/v1/nodes/{nodes[0]}/explain").text
    draws = client.get("/v1/draws").json()
    with (
        open_folded_records(read_config(played_chain)) as opened,
        opened.store.read_transaction() as uow,
    ):
        (report,) = uow.reports.list_newest(1)
    rounds = [str(row["round"]) for row in client.get("/v1/rounds").json()["rounds"]]
    return {
        "node": [*nodes, nodes[0][:6]],
        # For /v1/draws as well.
        "task": [row["task"] for row in (*draws["active"], *draws["over"])],
        "group": re.findall(r'"group":"(0x\w{64})"', explanation_text)[:5],
        "number": rounds,
        "piece": ["0"],
        "seq": ["0"],
        "hash": ["0x" + 64 * "5"],
        "period": [str(report.report.period)],
    }


def checks_of(operation: APIOperation[Any, Any, Any, Any]) -> list[Any]:
    """Return the checks of a response; 503 is expected where no listener is permitted."""
    return ANSWERS if operation.path == ENDLESS else [not_a_server_error, *ANSWERS]


def operations(schema: Any) -> list[APIOperation[Any, Any, Any, Any]]:
    return [operation_result.ok() for operation_result in schema.get_all_operations()]


def has_wrong_checksum(body: Any) -> bool:
    """Return whether an address in the body violates EIP-55,
    which the schema's pattern cannot express.
    """
    texts = [text for text in body.values() if isinstance(text, str)]
    addresses = [text[2:] for text in texts if re.fullmatch("0[xX][0-9a-fA-F]{40}", text)]
    return any(
        digits not in {digits.lower(), digits.upper()} and not is_checksum_address(f"0x{digits}")
        for digits in addresses
    )


@examples(300)
@given(data=st.data())
def test_responses_conform_to_openapi_schema(schema, path_values, data):
    operation = data.draw(st.sampled_from(operations(schema)), label="operation")
    names = [parameter.name for parameter in operation.path_parameters]
    is_there = data.draw(st.booleans(), label="of what is there")
    there = (
        {name: data.draw(st.sampled_from(path_values[name])) for name in names}
        if is_there
        else None
    )
    case = data.draw(operation.as_strategy(path_parameters=there), label="case")
    answer = case.call()
    case.validate_response(answer, checks=checks_of(operation))
    if is_there and operation.path != ENDLESS and not case.query:
        allowed = {200, 300}
        if operation.path.endswith("/again"):
            # This server's settings draw no node.
            allowed = {404}
        elif operation.path == "/v1/objections" and operation.method == "post":
            # No kickout is due, and nothing is signed.
            allowed = {403, 404, 409, 422, 429}
        elif operation.path.endswith("/{hash}"):
            # No rules were announced.
            allowed = {404}
        elif operation.path.endswith("/evidence"):
            # Most nodes were never accused.
            allowed = {200, 300, 404}
        elif isinstance(case.body, dict) and has_wrong_checksum(case.body):
            allowed = {422}
        assert answer.status_code in allowed, (case.body, answer.text)


@examples(300)
@given(data=st.data())
def test_requests_violating_schema_are_rejected(schema, data):
    operation = data.draw(st.sampled_from(operations(schema)), label="operation")
    case = data.draw(operation.as_strategy(GenerationMode.NEGATIVE), label="case")
    case.call_and_validate(checks=[*checks_of(operation), negative_data_rejection])
