"""The owner of the hopeless node, who objects to its kickout without ether for a transaction.

The owner signs typed data, as a wallet does, and posts it to the read API. The daemon brings the
objection on the chain, and its automatic check refutes it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

from devnet.anvil import CHAIN_ID
from devnet.demo.cast import BLOCK_SECONDS, HOPELESS
from devnet.demo.node_proofs import fetch_api_json, post_api_json
from devnet.demo.stage import Stage
from oracle.domain.ids import Address
from oracle.domain.reports.objections import ObjectionReason
from oracle.signing.typed_data import Domain, ObjectionStatement, build_objection_data

_REASON = ObjectionReason.ONE_CREATOR
_VALID_SECONDS = 1000 * BLOCK_SECONDS


@dataclass(frozen=True, slots=True)
class ObjectionInApi:
    """The objection of the hopeless node, as the API showed it while the kickout was due.

    `verdict` is the result of the automatic check, or None if the objection was never on the
    chain; `refused` is why the API did not accept it.
    """

    verdict: str | None
    finding: str | None
    transaction: str | None
    refused: str | None

    def list_faults(self) -> list[str]:
        """Return one line if the objection was not brought, or not refuted."""
        if self.refused is not None:
            return [f"the objection of the hopeless node was not accepted: {self.refused}"]
        if self.verdict is None:
            return ["the objection of the hopeless node was not brought on the chain"]
        if self.verdict != "refuted":
            return [f"the objection of the hopeless node is {self.verdict}, not refuted"]
        return []


class Objector:
    """Posts one objection for each interval in which the kickout of the hopeless node is due."""

    def __init__(self, stage: Stage, api_url: str) -> None:
        self._stage = stage
        self._api_url = api_url
        self._node = stage.nodes[HOPELESS.name]
        self._objected_to: int | None = None
        self.outcome = ObjectionInApi(None, None, None, None)

    def object_if_due(self, due_nodes: Collection[Address]) -> None:
        """Object once a kickout is due, and read the verdict while it is due.

        Raises:
            FatalError: the API does not respond.
        """
        if self._node not in due_nodes:
            return
        node_view = fetch_api_json(f"{self._api_url}/v1/nodes/{self._node}")
        due_since = node_view["kickout"]["due_since"]
        objections = node_view["objections"]
        if due_since is not None and due_since != self._objected_to:
            self._post(due_since, len(objections), node_view["as_of"]["time"] + _VALID_SECONDS)
        elif objections and objections[0]["verdict"] is not None:
            newest = objections[0]
            self.outcome = ObjectionInApi(
                newest["verdict"], newest["finding"], newest["at"]["transaction"], None
            )

    def _post(self, due_since: int, seq: int, deadline: int) -> None:
        text = "one application gave me tasks that nobody can run"
        statement = ObjectionStatement(self._node, due_since, _REASON.value, text, seq, deadline)
        typed_data = build_objection_data(statement, Domain(CHAIN_ID, self._stage.objections))
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
            # Another interval may have ended meanwhile; the next block tries again.
            self.outcome = ObjectionInApi(None, None, None, str(answer.get("detail", status)))
