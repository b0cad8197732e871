"""What we answer to programs: JSON of `status` and its kin, the same by command and by HTTP."""

from typing import Any

from oracle import __version__
from oracle.domain.report import RECORD_BYTES
from oracle.services.observing import Overview


def status_answer(seen: Overview) -> dict[str, Any]:
    """Return what `/v1/status` and `status --json` say."""
    return {
        "version": __version__,
        "chain_id": seen.chain_id,
        "start_block": seen.start_block,
        "folded": None if seen.folded is None else seen.folded._asdict(),
        "final": seen.final,
        "logs": seen.logs,
        "anomalies": seen.anomalies,
        "nodes": dict(sorted(seen.nodes.items())),
        "kickouts_due": seen.kickouts_due,
        "round": seen.round,
        "round_age_seconds": seen.round_age,
        "reports": [
            {
                "period": kept.report.period,
                "as_of": kept.report.as_of.number,
                "words": len(kept.report.records) // RECORD_BYTES,
                "state": kept.state.value,
                "reason": kept.reason,
                "round": kept.round,
            }
            for kept in seen.reports
        ],
        "outbox": [
            {"kind": kind, "state": state, "count": count}
            for (kind, state), count in sorted(seen.outbox.items())
        ],
        "lease": seen.lease,
    }
