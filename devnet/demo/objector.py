"""Simulates node owners without ether who object to the kickout of their nodes.

Each owner signs typed data, as a wallet does, and posts it to the read API. The daemon submits the
objection on chain, and checks it. The check refutes the objection of the hopeless node. It
supports the objection of the node whose scores all come from one application, and the operator
accepts this objection.
"""

import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from devnet.anvil import CHAIN_ID
from devnet.demo.demo_nodes import BLOCK_SECONDS, HOPELESS, SINGLE_CREATOR_NODE
from devnet.demo.node_proofs import fetch_api_json, post_api_json
from devnet.demo.stage import Stage
from oracle.domain.reports.objections import ObjectionReason, ObjectionVerdict
from oracle.errors import FatalError
from oracle.signing.typed_data import Domain, ObjectionStatement, build_objection_typed_data

_REASON = ObjectionReason.ONE_CREATOR
_TEXT_BY_NAME = {
    HOPELESS.name: "one application gave me tasks that nobody can run",
    SINGLE_CREATOR_NODE.name: (
        "all my tasks are of one application, which only the fastest nodes share"
    ),
}
_ANSWER = "the scores of one application alone do not justify a kickout"
_VALID_SECONDS = 1000 * BLOCK_SECONDS


@dataclass(frozen=True, slots=True)
class ObjectionInApi:
    """A node's objection in the API, while its kickout was due.

    `expected` and `verdict` are the expected and the actual result of the automatic check;
    `verdict` is None if the objection was never on chain. `refused` is the reason why the API did
    not accept it, or None. `is_accepted` is the operator's answer, or None without an answer.
    `is_accused` is set if the node was accused.
    """

    name: str
    expected: ObjectionVerdict
    verdict: str | None = None
    finding: str | None = None
    transaction: str | None = None
    refused: str | None = None
    is_accepted: bool | None = None
    is_accused: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether the objection has its verdict, and an operator's answer if it needs one."""
        return self.verdict is not None and (
            self.is_accepted is not None or not self.should_be_upheld
        )

    @property
    def should_be_upheld(self) -> bool:
        """Whether the objection should be supported by the check and accepted by the operator."""
        return self.expected is ObjectionVerdict.SUPPORTED

    def list_faults(self) -> list[str]:
        """List one line if the objection was not submitted, or not decided correctly."""
        subject = f"the objection of the node {self.name}"
        if self.refused is not None:
            return [f"{subject} was not accepted by the API: {self.refused}"]
        if self.verdict is None:
            return [f"{subject} was not brought on the chain"]
        if self.verdict != self.expected:
            return [f"{subject} is {self.verdict}, not {self.expected.value}"]
        if self.should_be_upheld and not self.is_accepted:
            return [f"{subject} was not accepted by the operator"]
        if self.should_be_upheld and self.is_accused:
            return [f"the node {self.name} was accused in spite of its objection"]
        return []


class Objector:
    """Posts one objection each time that a node's kickout becomes due."""

    def __init__(
        self, stage: Stage, api_url: str, name: str, expected_verdict: ObjectionVerdict
    ) -> None:
        self._stage = stage
        self._api_url = api_url
        self._node = stage.nodes[name]
        self._objected_to: int | None = None
        self.outcome = ObjectionInApi(name, expected_verdict)

    def advance_objection(self, due_nodes: Collection[str], configuration: Path) -> None:
        """Post the objection when the kickout is due, and record its verdict later.

        If the check supports the objection, the operator answers it with the daemon's
        configuration file `configuration`.

        Raises:
            FatalError: the API does not respond, or the answer failed.
        """
        if self._node not in due_nodes:
            return
        node_view = fetch_api_json(f"{self._api_url}/v1/nodes/{self._node}")
        due_since = node_view["kickout"]["due_since"]
        objections = node_view["objections"]
        if due_since is not None and due_since != self._objected_to:
            self._post_objection(
                due_since, len(objections), node_view["as_of"]["time"] + _VALID_SECONDS
            )
        elif objections and objections[0]["verdict"] is not None:
            self._record_verdict(node_view)
            if self.outcome.should_be_upheld and self.outcome.is_accepted is None:
                self._accept_objection(configuration)

    def _record_verdict(self, node_view: dict[str, Any]) -> None:
        newest_objection = node_view["objections"][0]
        on_chain = node_view["kickout"]["on_chain"]
        answer = newest_objection["answer"]
        self.outcome = replace(
            self.outcome,
            verdict=newest_objection["verdict"],
            finding=newest_objection["finding"],
            transaction=newest_objection["at"]["transaction"],
            refused=None,
            is_accepted=None if answer is None else answer["is_accepted"],
            is_accused=on_chain is not None,
        )

    def _accept_objection(self, configuration: Path) -> None:
        """Accept the objection in a separate process, as an operator does."""
        arguments = ["objection", "answer", self._node, "--accept", "--reason", _ANSWER]
        completed_process = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-m", "oracle", *arguments, "--config", str(configuration)],
            capture_output=True,
            text=True,
            check=False,
        )
        if completed_process.returncode:
            raise FatalError(
                f"the objection cannot be answered: {completed_process.stderr.strip()}"
            )

    def _post_objection(self, due_since: int, seq: int, deadline: int) -> None:
        text = _TEXT_BY_NAME[self.outcome.name]
        statement = ObjectionStatement(self._node, due_since, _REASON.value, text, seq, deadline)
        typed_data = build_objection_typed_data(
            statement, Domain(CHAIN_ID, self._stage.objections)
        )
        signature = self._stage.chain.make_request("eth_signTypedData_v4", self._node, typed_data)
        status, answer = post_api_json(
            f"{self._api_url}/v1/objections",
            {
                "node": self._node,
                "due_since": due_since,
                "reason": _REASON.option,
                "text": text,
                "seq": seq,
                "deadline": deadline,
                "signature": signature,
            },
        )
        if status == HTTPStatus.ACCEPTED:
            self._objected_to = due_since
        else:
            # The kickout may no longer be due. The objection is posted again after the next block.
            refusal_text = str(answer.get("detail", status))
            self.outcome = replace(self.outcome, refused=refusal_text)


def create_objectors(
    stage: Stage, api_url: str, *, has_single_creator_node: bool
) -> list[Objector]:
    """Create the objectors, with the verdict that the check should reach for each."""
    expected_by_name = {HOPELESS.name: ObjectionVerdict.REFUTED}
    if has_single_creator_node:
        expected_by_name[SINGLE_CREATOR_NODE.name] = ObjectionVerdict.SUPPORTED
    return [
        Objector(stage, api_url, name, expected_verdict)
        for name, expected_verdict in expected_by_name.items()
    ]
