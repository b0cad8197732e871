"""A desk at which all is looked at as ever, and nothing is signed, written or sent (dry runs).

The real code runs there, so that it cannot say something else than it does.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from oracle.kickouts.proof import EvidenceProof, EvidenceVerifier
from oracle.signing.local import SignatureWantedError
from oracle.txmgr.context import StepResult, TxContext


class WriteWantedError(Exception):
    """A dry run has come to what the real one would write down, or send."""


@dataclass(frozen=True, slots=True)
class DryRunContext(TxContext):
    """Stops whoever wants to write or send; its keys stop whoever wants a signature."""

    @override
    def writing(self) -> NoReturn:
        raise WriteWantedError

    @override
    def before_sending(self) -> NoReturn:
        raise WriteWantedError


@dataclass(frozen=True, slots=True)
class _Looker(EvidenceVerifier):
    """Verifies nothing: what would come of it is written down."""

    @override
    def prove(self, proof: EvidenceProof) -> NoReturn:
        raise WriteWantedError


def rehearse(
    context: TxContext, act: Callable[[TxContext], StepResult | None], otherwise: str
) -> str | None:
    """Say what an act at this desk would sign, else `otherwise`; None: it would do nothing.

    Raises:
        OracleError: whatever the act raises.
    """
    with tempfile.TemporaryDirectory(prefix="qos-oracle-") as folder:
        try:
            step = act(_rehearsal(context, Path(folder)))
        except SignatureWantedError as wanted:
            return str(wanted)
        except WriteWantedError:
            return otherwise
    return None if step is None else f"{step.did} {step.detail}".rstrip()


def _rehearsal(context: TxContext, folder: Path) -> DryRunContext:
    """Seat the same at another desk; evidence is laid down in a folder that goes away."""
    prover = context.prover
    given = {field.name: getattr(context, field.name) for field in fields(context)}
    given["publisher"] = context.publisher.muted()
    given["evidence_folder"] = folder
    if prover is not None:
        given["prover"] = _Looker(prover.chain, prover.store, prover.folder, prover.manner)
    return DryRunContext(**given)
