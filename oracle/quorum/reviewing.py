"""Goes on comparing after a round has its quorum: who disagrees may come late."""

from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH
from oracle.quorum.gatherer import ask_again
from oracle.quorum.statements import REPORT
from oracle.store.outbox.records import SignedStatement
from oracle.store.reports.report_repository import ReportState, StoredCut
from oracle.txmgr.context import TxContext

# Rounds that are asked about again.
_ROUNDS = 2


def review(context: TxContext, cuts: list[StoredCut]) -> None:
    """Ask the other reporters about the newest rounds that were signed or accepted.

    A few times each and slowly, whether we transmit or only sign.

    Raises:
        TransientError: they told something new, and no endpoint answers.
        FatalError: another process has taken over the lease.
    """
    if context.peers is None:
        return
    rounds = {
        one.cut.head_round + 1
        for one in cuts
        if one.digest is not None or one.state is ReportState.LANDED
    }
    for number in sorted(rounds)[-_ROUNDS:]:
        ask_again(context, _about(context, number))


def _about(context: TxContext, number: int) -> SignedStatement:
    """Return what names a round; the rest is empty."""
    return SignedStatement(
        chain_id=context.publisher.domain.chain_id,
        contract=context.publisher.domain.contract,
        signer=ZERO_ADDRESS,
        kind=REPORT,
        round=number,
        subject="",
        digest=ZERO_HASH,
        signature=b"",
        expires_at=0,
    )
