"""Brings the calls of one account to the chain, and watches them there.

Each step is one commit, and each commit stands before what it makes possible: whoever dies
between two of them goes on with the same nonces and the same bytes.
See docs/explanation/transactions.md#states.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oracle.chain.heads import Heads
from oracle.txmgr.admission import admit
from oracle.txmgr.broadcaster import broadcast_unsent
from oracle.txmgr.budget import resume_funded
from oracle.txmgr.confirmation.confirmer import confirm
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.nonce_assignment import assign
from oracle.txmgr.recovery.nonce_conflicts import compare_again, compare_at_start
from oracle.txmgr.replacement.call_replacement import replace_next
from oracle.txmgr.replacement.fee_bump import bump_next
from oracle.txmgr.replacement.retry import retry_next
from oracle.txmgr.signing_queue import resume_refused, sign_assigned

_STAGES = (
    # What has a nonce goes first, so that no higher nonce ever waits for a lower one.
    broadcast_unsent,
    sign_assigned,
    replace_next,
    bump_next,
    assign,
    admit,
    retry_next,
)


@dataclass(frozen=True, slots=True)
class TransactionManager:
    """One account's calls, `context.batch_size` at a time; it knows none of its customers."""

    context: TxContext

    def step(self, heads: Heads) -> StepResult | None:
        """Take the most urgent step, with all that can be taken along; None: nothing now."""
        context = self.context
        if context.is_stopped():
            return None
        resumed = resume_funded(context) or resume_refused(context)
        steps = (stage(context, heads) for stage in _STAGES)
        return resumed or next((step for step in steps if step is not None), None)

    def confirm(self, heads: Heads) -> StepResult | None:
        """Take note of what happened to open nonces; None: nothing did.

        Raises:
            TransientError: no endpoint answers.
            InputError: an endpoint is of another chain.
        """
        return confirm(self.context, heads)

    def sync_nonces(
        self, *, is_running: bool = False, if_known: Callable[[], None] | None = None
    ) -> StepResult | None:
        """Compare our nonces with the chain's, at a start and now and then (`is_running`).

        Where the chain is ahead of us a start is refused, while a running account is paused.
        `if_known`: what else follows from a start that finds the account at rest for it already.

        Raises:
            NonceAheadError: at a start: the chain has seen nonces that we never gave out.
            InputError, TransientError: see `nonce_sync.reconcile`.
        """
        if is_running:
            return compare_again(self.context)
        return compare_at_start(self.context, if_known)
