"""What a turn did, as facts for the log."""

from collections.abc import Iterator, Mapping

from oracle.indexer.block_hooks import numbers_by_name
from oracle.indexer.loop import Done as Turned, WindowCommitted
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.reorg import Rewound
from oracle.txmgr.context import StepResult as Done

Facts = Mapping[str, object] | None


def done_facts(step: Done | None) -> Facts:
    if step is None:
        return None
    facts = {"did": step.did, "intent": step.intent, "detail": step.detail}
    return {name: fact for name, fact in facts.items() if fact not in {None, ""}}


def turn_facts(done: Turned) -> Mapping[str, object]:
    if isinstance(done, HaltChanged):
        did = "halted" if done.is_closed else "resumed"
        return {"did": did, "halt": done.name, "reason": done.reason}
    if isinstance(done, Rewound):
        return {
            "did": "rewound",
            "to": done.ancestor.number,
            "depth": done.depth,
            "logs": done.logs,
            "reports": done.reports,
            "endpoints": list(done.endpoints),
        }
    return dict(_of_window(done))


def _of_window(done: WindowCommitted) -> Iterator[tuple[str, object]]:
    yield "did", "indexed"
    yield "blocks", f"{done.blocks.first}..{done.blocks.last}"
    yield "behind", done.newest - done.cursor.number
    yield "logs", done.logs
    yield "events", sum(done.events.values())
    yield from numbers_by_name(done.notes).items()
    milliseconds = 1000 * (done.fetch_seconds + done.fold_seconds + done.commit_seconds)
    yield "ms", round(milliseconds, 1)
