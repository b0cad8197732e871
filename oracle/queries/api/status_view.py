"""Health in a word, and the reasons: what may be told to anybody.

No names of endpoints, hosts, accounts or folders: those are for who watches the daemon, at its
own listener.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from oracle import __version__
from oracle.domain.health import Severity
from oracle.queries.answers import Answer, ApiModel, HashText
from oracle.queries.api.source import ApiSnapshot

Word = Literal["well", "attention", "down"]
_WORDS: Mapping[Severity, Word] = {
    Severity.WELL: "well",
    Severity.ATTENTION: "attention",
    Severity.DOWN: "down",
}


class ReorgEntry(ApiModel):
    """The last blocks that were given up for others."""

    ancestor: int = Field(description="The last block that both sides have.")
    old_tip: int
    old_hash: HashText
    depth: int
    time: int
    logs_orphaned: int


class StatusAnswer(Answer):
    """How the oracle is."""

    health: Word = Field(
        description="`down`: nothing goes on; `attention`: something is wrong beside that."
    )
    conditions: list[str] = Field(
        description="What is wrong, by name (docs/explanation/health.md); empty: nothing is."
    )
    reasons: list[str] = Field(description="The same in words, without names of machines.")
    version: str
    chain_id: int | None
    start_block: int | None
    round: int | None = Field(description="The last that was accepted.")
    outbox: dict[str, int] = Field(description="Transactions by state.")
    reports_held: int
    kickouts_due: int
    tasks_waiting: int
    draws_standing: int
    levels: dict[str, int] = Field(description="Blocks by how well they were proven.")
    dead_letters: int = Field(description="Logs of known kinds that could not be read.")
    anomalies: int = Field(description="Events that broke a rule and were passed over.")
    last_reorg: ReorgEntry | None


def status_view(look: ApiSnapshot) -> StatusAnswer:
    """Return the health as far as the database tells it."""
    uow, identity = look.uow, look.uow.identity.get()
    health = look.health()
    newest = uow.rounds.accepted(1)
    states: dict[str, int] = {}
    for (_, state), count in uow.outbox.intents.counts().items():
        states[state] = states.get(state, 0) + count
    scope = uow.coverage.current()
    levels = {} if scope is None else uow.coverage.blocks_by_level(scope.id)
    return StatusAnswer(
        as_of=look.as_of,
        health=_WORDS[health.severity],
        conditions=[one.key for one in health.conditions],
        reasons=[one.title for one in health.conditions],
        version=__version__,
        chain_id=None if identity is None else identity.chain_id,
        start_block=None if identity is None else identity.start_block,
        round=newest[-1].round if newest else None,
        outbox=states,
        reports_held=len(list(uow.holds.waiting())),
        kickouts_due=len(uow.kickouts.open()),
        tasks_waiting=uow.tasks.count_waiting(),
        draws_standing=len(uow.draws.active()),
        levels={level.name.lower(): blocks for level, blocks in sorted(levels.items())},
        dead_letters=uow.dead_letters.count_open(),
        anomalies=uow.anomalies.count(),
        last_reorg=_last_reorg(look),
    )


def _last_reorg(look: ApiSnapshot) -> ReorgEntry | None:
    for one in look.uow.reorgs.newest(1):
        return ReorgEntry(
            ancestor=one.ancestor,
            old_tip=one.old_tip,
            old_hash=one.old_hash,
            depth=one.depth,
            time=one.time,
            logs_orphaned=one.logs_orphaned,
        )
    return None
