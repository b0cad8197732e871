"""Builds a page section in which the browser checks the proof of a node's score.

No page contains a proof. The script of the page fetches a proof when the reader requests it, and
compares it with the values of this section.
"""

import json
from dataclasses import dataclass

from oracle.daemon.web.pages.page_frame import PageRequest, parse_round_number
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.indexer.round_leaves import load_domain, load_pieced_round
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.leaf_models import ProofSummary


@dataclass(frozen=True, slots=True)
class ProofCard:
    """The values that a page's script compares with an address's Merkle proof in a round.

    `summary` is None if the leaves of the round are no longer stored. A proof then requires
    another fold up to the round.
    """

    address: Address
    round: int
    as_of: int
    as_of_hash: Hash
    chain_id: int
    oracle: Address
    root: Hash
    summary: ProofSummary | None

    @property
    def path(self) -> str:
        """The read API path that returns the proof."""
        return f"/v1/nodes/{self.address}/proof?round={self.round}"

    @property
    def summary_text(self) -> str:
        """The fields of the round's summary that the page shows, as JSON."""
        if self.summary is not None:
            return self.summary.model_dump_json(exclude={"oracle_account_id"})
        names = ("chain_id", "oracle", "round", "as_of")
        return json.dumps({name: getattr(self, name) for name in names})


def get_accepted_round(snapshot: ApiSnapshot, round_number: int) -> RoundAccepted:
    """Return an accepted round; raise NotFoundError if the round was not accepted."""
    accepted_round = snapshot.uow.rounds.find_accepted_round(round_number)
    if accepted_round is None:
        raise NotFoundError(f"round {round_number} is not an accepted round of the indexed blocks")
    return accepted_round


def build_requested_proof_card(
    snapshot: ApiSnapshot, request: PageRequest, address: Address
) -> ProofCard | None:
    """Build an address's proof in the round given by the query field `round`.

    Without `round`, the newest accepted round is used. The result is None if no round was accepted
    yet.

    Raises:
        RequestError: `round` is no number.
        NotFoundError: the round was not accepted.
    """
    round_text = request.get_query_field("round")
    if round_text is not None:
        accepted_round = get_accepted_round(snapshot, parse_round_number(round_text))
        return build_proof_card(snapshot, address, accepted_round)
    newest_rounds = snapshot.uow.rounds.list_accepted_below(None, 1)
    return build_proof_card(snapshot, address, newest_rounds[0]) if newest_rounds else None


def build_proof_card(
    snapshot: ApiSnapshot, address: Address, accepted_round: RoundAccepted
) -> ProofCard:
    """Build the page values for an address's proof in an accepted round."""
    domain = load_domain(snapshot.uow)
    pieced_round = load_pieced_round(snapshot.uow, snapshot.source.leaves, accepted_round)
    return ProofCard(
        address=address,
        round=accepted_round.round,
        as_of=accepted_round.as_of,
        as_of_hash=accepted_round.as_of_hash,
        chain_id=domain.chain_id,
        oracle=domain.contract,
        root=accepted_round.root,
        summary=None if pieced_round is None else ProofSummary.from_summary(pieced_round.summary),
    )
