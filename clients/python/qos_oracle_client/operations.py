"""The operations of the read API, made by `make clients`."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from qos_oracle_client import models

# Method, path, its values, query and body.
Request = Callable[[str, str, Mapping[str, object], Mapping[str, object], object], Any]


class Operations:
    """A method for each operation; the server decides where a parameter is None."""

    def __init__(self, request: Request) -> None:
        """Store the function that sends a request and returns the decoded response."""
        self._request = request

    def network(self, *, span: Literal["1h", "24h", "7d"] | None = None) -> models.NetworkAnswer:
        """Return the network's totals, score distribution, activity and open operator actions."""
        response: models.NetworkAnswer = self._request(
            "GET", "/v1/network", {}, {"span": span}, None
        )
        return response

    def nodes(
        self,
        *,
        sort: Literal[
            "qos",
            "-qos",
            "long_term",
            "-long_term",
            "reliability",
            "-reliability",
            "scored",
            "-scored",
            "changed_at",
            "-changed_at",
            "address",
        ]
        | None = None,
        state: Literal[
            "selectable",
            "recovering",
            "excluded",
            "paused",
            "quit",
            "slashed",
            "kicked_out",
            "unknown",
        ]
        | None = None,
        prefix: str | None = None,
        gpu: str | None = None,
        of: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> models.NodePage:
        """Return all nodes in pages, in the requested order.

        As of one block, the pages repeat no node and omit none; `moved` means that the block has
        changed since the previous page.
        """
        response: models.NodePage = self._request(
            "GET",
            "/v1/nodes",
            {},
            {
                "sort": sort,
                "state": state,
                "prefix": prefix,
                "gpu": gpu,
                "of": of,
                "cursor": cursor,
                "limit": limit,
            },
            None,
        )
        return response

    def node(self, node: str) -> models.NodeView:
        """Return one node: its scores, rank, and margins to exclusion and kickout."""
        response: models.NodeView = self._request(
            "GET", "/v1/nodes/{node}", {"node": node}, {}, None
        )
        return response

    def node_advice(self, node: str) -> models.NodeAdvice:
        """Return what to expect for a node, and what would change it."""
        response: models.NodeAdvice = self._request(
            "GET", "/v1/nodes/{node}/advice", {"node": node}, {}, None
        )
        return response

    def node_rules(self, node: str) -> models.NodePreviews:
        """Return a node's standing under the rules in force, announced rules and shadow rules."""
        response: models.NodePreviews = self._request(
            "GET", "/v1/nodes/{node}/rules", {"node": node}, {}, None
        )
        return response

    def node_history(
        self,
        node: str,
        *,
        first: int | None = None,
        last: int | None = None,
        points: int | None = None,
    ) -> models.NodeHistory:
        """Return QoS, long-term score and reliability over time, with at most 2,000 points."""
        response: models.NodeHistory = self._request(
            "GET",
            "/v1/nodes/{node}/history",
            {"node": node},
            {"first": first, "last": last, "points": points},
            None,
        )
        return response

    def node_past(self, node: str) -> models.NodePast:
        """Return a node's membership events, on-chain updates and draws."""
        response: models.NodePast = self._request(
            "GET", "/v1/nodes/{node}/past", {"node": node}, {}, None
        )
        return response

    def node_proof(self, node: str, *, round: int | None = None) -> models.ProofAnswer:
        """Return the Merkle proof of a node's score in an accepted round.

        For a full address without a node, return the proof that it has no score. A round that is
        not one of the last 256 is folded again, for one request at a time; other requests for such
        rounds get 503 meanwhile.
        """
        response: models.ProofAnswer = self._request(
            "GET", "/v1/nodes/{node}/proof", {"node": node}, {"round": round}, None
        )
        return response

    def node_bundle(self, node: str, *, round: int | None = None) -> models.BundleAnswer:
        """Return all data for checking a node's scores in a round elsewhere.

        The page `/verify` reads it. One bundle is made at a time; other requests get 503
        meanwhile.
        """
        response: models.BundleAnswer = self._request(
            "GET", "/v1/nodes/{node}/bundle", {"node": node}, {"round": round}, None
        )
        return response

    def explain(self, node: str, *, at: int | None = None) -> models.ExplanationAnswer:
        """Return every number behind a score, each with its log and transaction.

        The score of an earlier block is folded again, for one request at a time; other requests
        get 503 meanwhile.
        """
        response: models.ExplanationAnswer = self._request(
            "GET", "/v1/nodes/{node}/explain", {"node": node}, {"at": at}, None
        )
        return response

    def task(self, task: str) -> models.TaskAnswer:
        """Return the history and the score of a task."""
        response: models.TaskAnswer = self._request(
            "GET", "/v1/tasks/{task}", {"task": task}, {}, None
        )
        return response

    def group(self, group: str) -> models.GroupAnswer:
        """Return the members, ranks, times and scores of a group."""
        response: models.GroupAnswer = self._request(
            "GET", "/v1/groups/{group}", {"group": group}, {}, None
        )
        return response

    def rounds(self, *, before: int | None = None, limit: int | None = None) -> models.RoundPage:
        """List the rounds that the oracle contract accepted, newest first."""
        response: models.RoundPage = self._request(
            "GET", "/v1/rounds", {}, {"before": before, "limit": limit}, None
        )
        return response

    def round(self, number: int) -> models.RoundAnswer:
        """Return one round with its root and signers; its leaves have a separate route."""
        response: models.RoundAnswer = self._request(
            "GET", "/v1/rounds/{number}", {"number": number}, {}, None
        )
        return response

    def signers(self) -> models.SignersAnswer:
        """List the signers of the oracle contract, and which of the newest rounds they signed."""
        response: models.SignersAnswer = self._request("GET", "/v1/signers", {}, {}, None)
        return response

    def incidents(
        self, *, before: int | None = None, limit: int | None = None
    ) -> models.IncidentPage:
        """List suspected application bursts and network outages, newest first."""
        response: models.IncidentPage = self._request(
            "GET", "/v1/incidents", {}, {"before": before, "limit": limit}, None
        )
        return response

    def kickouts(self) -> models.KickoutPage:
        """List the due kickouts, and the newest kickouts in the contract."""
        response: models.KickoutPage = self._request("GET", "/v1/kickouts", {}, {}, None)
        return response

    def objections(self, *, limit: int | None = None) -> models.ObjectionPage:
        """List the newest objections of nodes to their kickouts, with checks and answers."""
        response: models.ObjectionPage = self._request(
            "GET", "/v1/objections", {}, {"limit": limit}, None
        )
        return response

    def post_objection(self, body: models.SignedObjection) -> models.ObjectionAccepted:
        """Accept a signed objection, which this reporter submits and pays for.

        A refusal names its reason in `refusal`, and nothing is stored.
        """
        response: models.ObjectionAccepted = self._request("POST", "/v1/objections", {}, {}, body)
        return response

    def node_objections(self, node: str) -> models.NodeObjections:
        """List up to fifty objections of a node, newest first."""
        response: models.NodeObjections = self._request(
            "GET", "/v1/objections/{node}", {"node": node}, {}, None
        )
        return response

    def round_leaves(self, number: int) -> models.LeavesAnswer:
        """Return the hashes that lead from an accepted round's pieces to its root.

        404 if the round is not one of the last 256, or was accepted before the indexing reached
        the head of the chain.
        """
        response: models.LeavesAnswer = self._request(
            "GET", "/v1/rounds/{number}/leaves", {"number": number}, {}, None
        )
        return response

    def round_piece(self, number: int, piece: int) -> bytes:
        """Return 8,192 leaves of an accepted round, exactly as they are hashed."""
        response: bytes = self._request(
            "GET",
            "/v1/rounds/{number}/leaves/{piece}",
            {"number": number, "piece": piece},
            {},
            None,
        )
        return response

    def report_leaves(self, period: int) -> models.LeavesAnswer:
        """Return the hashes of the pieces of a report built by this reporter.

        The report may never be accepted, so its leaves prove nothing; `report diff` compares them
        with another reporter's. 404 if the report can no longer be accepted.
        """
        response: models.LeavesAnswer = self._request(
            "GET", "/v1/reports/{period}/leaves", {"period": period}, {}, None
        )
        return response

    def report_piece(self, period: int, piece: int) -> bytes:
        """Return 8,192 leaves of a report built by this reporter."""
        response: bytes = self._request(
            "GET",
            "/v1/reports/{period}/leaves/{piece}",
            {"period": period, "piece": piece},
            {},
            None,
        )
        return response

    def draws(self, *, limit: int | None = None) -> models.DrawPage:
        """List the active draws, and the newest inactive draws."""
        response: models.DrawPage = self._request("GET", "/v1/draws", {}, {"limit": limit}, None)
        return response

    def task_draws(self, task: str) -> models.TaskDraws:
        """List all draws of one task."""
        response: models.TaskDraws = self._request(
            "GET", "/v1/draws/{task}", {"task": task}, {}, None
        )
        return response

    def draw_again(self, task: str, *, seed_block: int | None = None) -> models.DrawnAgain:
        """Return all inputs of a draw, so that anyone can repeat it.

        Candidates and weights are folded again, for one request at a time; other requests get 503
        meanwhile.
        """
        response: models.DrawnAgain = self._request(
            "GET", "/v1/draws/{task}/again", {"task": task}, {"seed_block": seed_block}, None
        )
        return response

    def rules(self) -> models.RulesAnswer:
        """Return every parameter of the scoring rules, with its meaning and source."""
        response: models.RulesAnswer = self._request("GET", "/v1/rules", {}, {}, None)
        return response

    def rules_history(self) -> models.RulesHistory:
        """List announced, cancelled and executed changes of the contract's rules, newest first."""
        response: models.RulesHistory = self._request("GET", "/v1/rules/history", {}, {}, None)
        return response

    def rules_previews(self) -> models.RulesPreviews:
        """Return how announced and shadow rules would change the network."""
        response: models.RulesPreviews = self._request("GET", "/v1/rules/previews", {}, {}, None)
        return response

    def announced_rules(self, hash: str) -> models.AnnouncedRules:
        """Return the rules with this hash, if this host has them."""
        response: models.AnnouncedRules = self._request(
            "GET", "/v1/rules/{hash}", {"hash": hash}, {}, None
        )
        return response

    def status(self) -> models.PublicStatus:
        """Return the health status and its reasons."""
        response: models.PublicStatus = self._request("GET", "/v1/status", {}, {}, None)
        return response

    def select(self, body: models.WantedTask) -> models.SelectionAnswer:
        """Return the candidates for a task, with weights and probabilities; no node is drawn."""
        response: models.SelectionAnswer = self._request("POST", "/v1/select", {}, {}, body)
        return response

    def evidence(self, node: str) -> dict[str, Any]:
        """Return the evidence behind a node's newest accusation.

        The header `x-sha256` is the hash of the bytes.
        """
        response: dict[str, Any] = self._request(
            "GET", "/v1/kickouts/{node}/evidence", {"node": node}, {}, None
        )
        return response

    def subscription_form(self) -> models.SubscriptionForm:
        """Return the data that an owner signs to subscribe to a node's notices."""
        response: models.SubscriptionForm = self._request("GET", "/v1/subscriptions", {}, {}, None)
        return response

    def subscribe(self, body: models.SubscriptionRequest) -> models.OwnSubscriptions:
        """Subscribe to the notices of a node, list its subscriptions, or end one.

        The signature must be by the node's key or its contract (ERC-1271). A webhook must then
        return the `challenge` that it gets; a mail address gets a link for confirmation.
        """
        response: models.OwnSubscriptions = self._request(
            "POST", "/v1/subscriptions", {}, {}, body
        )
        return response
