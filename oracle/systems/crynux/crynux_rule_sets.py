"""The rule sets of Crynux: this project's, the documented one, and the relay's."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules

# This rule set follows the documents (docs/reference/sources.md#crynux-qos), except where their
# text defeats their purpose (decisions 0173, 0174). In addition, wrong answers are not ranked. All
# other values are the defaults of `Rules`.
CRYNUX = Rules(name="crynux", version=3, ranked_answers="right")

# This rule set follows the documents as written, including their loopholes for nodes and creators
# (docs/reference/scoring-rules.md#crynux-against-its-letter).
CRYNUX_DOCS = Rules(
    name="crynux-docs",
    version=1,
    ranked_answers="all",
    error_rank="as_reported",
    rejoin_heals=True,
    kick_creator_share=UNIT,
)

# This rule set follows the production relay of 2026-08, at commit 24ffc26
# (docs/explanation/crynux.md#the-relays-rules).
RELAY = Rules(
    name="relay",
    version=2,
    pool_zero_only_on_timeout=True,
    creator_timeout_rejects_group=True,
    error_rank="as_reported",
    zero_mean_is_new=True,
    rejoin_floor=3 * UNIT // 10,
    kickout_starts_anew=False,
    rejoin_heals=True,
    kick_creator_share=UNIT,
    reseed_copies=49,
    first_penalty=95 * UNIT // 100,
    first_penalty_from=99 * UNIT // 100,
    exclude_enter=2 * UNIT // 10,
    exclude_exit=8 * UNIT // 10,
)
