"""The rounds that the oracle contract accepted, and which of the newest each signer signed.

A push carries no more signatures than the quorum needs, so a signer that is missing on chain may
still have signed. Signed statements that this reporter received therefore count as well.
"""

from pydantic import Field

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.reports.contract_state import ContractSettings
from oracle.queries.answers import AddressText, Answer, ApiModel, HashText
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.report_models import RoundEntry, SignatureState, build_round_entry
from oracle.quorum.statements import list_round_statements
from oracle.store.outbox.records import SignedStatement

MAX_ROUNDS = 20


class RoundPage(Answer):
    """A page of accepted rounds, newest first."""

    rounds: list[RoundEntry]
    next: int | None = Field(
        description="Value of `before` that requests the next page; null on the last page."
    )


class RoundAnswer(Answer):
    """One accepted round; `qos-oracle report verify` recomputes it."""

    entry: RoundEntry
    config: HashText = Field(
        description=(
            "Digest of the chain, the contract, and its configuration (number, signers, quorum "
            "and rules) for which the round was signed."
        )
    )
    signers: list[AddressText] = Field(
        description=(
            "Signers whose signatures were sent with the round; empty if the round's "
            "configuration is not indexed."
        )
    )


def list_rounds(snapshot: ApiSnapshot, before_round: int | None, limit: int) -> RoundPage:
    """Return up to `limit` rounds before `before_round`, by default the newest rounds."""
    accepted_rounds = snapshot.uow.rounds.list_accepted_below(before_round, limit + 1)
    page_rounds = accepted_rounds[:limit]
    log_place_by_position = snapshot.load_log_places(
        accepted_round.at for accepted_round in page_rounds
    )
    return RoundPage(
        as_of=snapshot.as_of,
        rounds=[
            build_round_entry(
                accepted_round,
                log_place_by_position[accepted_round.at],
                is_struck=snapshot.uow.rounds.is_struck(accepted_round.round),
            )
            for accepted_round in page_rounds
        ],
        next=page_rounds[-1].round if len(accepted_rounds) > limit else None,
    )


def build_round_answer(snapshot: ApiSnapshot, round_number: int) -> RoundAnswer:
    """Return one accepted round.

    Raises:
        NotFoundError: the round was not accepted.
    """
    accepted_round = snapshot.uow.rounds.find_accepted_round(round_number)
    if accepted_round is None:
        raise NotFoundError(f"round {round_number} was not accepted in the indexed blocks")
    return RoundAnswer(
        as_of=snapshot.as_of,
        entry=build_round_entry(
            accepted_round,
            snapshot.load_log_places([accepted_round.at])[accepted_round.at],
            is_struck=snapshot.uow.rounds.is_struck(round_number),
        ),
        config=accepted_round.config,
        signers=list(snapshot.uow.rounds.list_round_signers(accepted_round)),
    )


class SignedRound(ApiModel):
    """Whether a signer signed an accepted round, and with which root."""

    round: int
    state: SignatureState = Field(
        description=(
            "`agrees`: the signer signed the accepted root. `differs`: the signer signed "
            "another root of the same block. `not signed`: neither the chain nor this reporter "
            "has a statement of the signer."
        )
    )


class SignerEntry(ApiModel):
    """A signer of the contract, and its signatures for the newest rounds."""

    signer: AddressText
    rounds: list[SignedRound] = Field(
        description=f"Of the last {MAX_ROUNDS} accepted rounds, those of which it was a signer; "
        "newest first."
    )

    def list_rounds_in_state(self, state: SignatureState) -> list[int]:
        """Return the rounds for which this signer's signature has the given state.

        The newest round comes first.
        """
        return [entry.round for entry in self.rounds if entry.state == state]


class SignersAnswer(Answer):
    """The current signers of the contract, in the order of the contract."""

    quorum: int | None = Field(
        description="Number of signatures that a round needs; null if no indexed block set it."
    )
    newest_round: int | None = Field(
        description="Number of the newest accepted round; null if no round was accepted."
    )
    newest_signatures: int = Field(
        description="Number of current signers known to have signed the root of the newest round."
    )
    signers: list[SignerEntry]


def list_signers(snapshot: ApiSnapshot) -> SignersAnswer:
    """Return the contract's current signers, and which of the newest rounds each signed."""
    uow = snapshot.uow
    settings = uow.rounds.get_contract_settings()
    identity = uow.identity.get()
    oracle_address = None if identity is None else identity.oracle
    rounds = [
        (
            accepted_round,
            []
            if oracle_address is None
            else list_round_statements(uow, oracle_address, accepted_round.round),
        )
        for accepted_round in uow.rounds.list_accepted_below(None, MAX_ROUNDS)
    ]
    current_signers = settings.signers
    signer_entries = [
        SignerEntry(
            signer=signer,
            rounds=[
                SignedRound(
                    round=accepted_round.round,
                    state=_classify_signature(settings, signer, accepted_round, statements),
                )
                for accepted_round, statements in rounds
                if signer in settings.signers_by_config.get(accepted_round.config, ())
            ],
        )
        for signer in (() if current_signers is None else current_signers.signers)
    ]
    newest_round = rounds[0][0].round if rounds else None
    return SignersAnswer(
        as_of=snapshot.as_of,
        quorum=None if current_signers is None else current_signers.quorum,
        newest_round=newest_round,
        newest_signatures=sum(
            newest_round in entry.list_rounds_in_state(SignatureState.AGREES)
            for entry in signer_entries
        ),
        signers=signer_entries,
    )


def _classify_signature(
    settings: ContractSettings,
    signer: Address,
    accepted_round: RoundAccepted,
    statements: list[SignedStatement],
) -> SignatureState:
    # A statement about another block belongs to another attempt, so it contradicts nothing.
    signed_roots = {
        statement.root
        for statement in statements
        if (statement.signer, statement.as_of_hash) == (signer, accepted_round.as_of_hash)
    }
    if accepted_round.root in signed_roots or signer in (
        settings.find_round_signers(accepted_round) or ()
    ):
        return SignatureState.AGREES
    return SignatureState.DIFFERS if signed_roots else SignatureState.NOT_SIGNED
