"""The names of the kinds of calls in the outbox.

Each has a `CallKind` in the package that sends it.
"""

PUSH = "push"
# The subject of each kickout call is the node's address.
ACCUSE, EXECUTE_KICK, CLEAR_KICK = "accuse", "execute_kick", "clear_kick"
RETRY_KICK = "retry_kick"
# The calls that lead to an expulsion.
EXPULSION_KINDS = (ACCUSE, EXECUTE_KICK, RETRY_KICK)
BRING_OBJECTION = "bring_objection"
# The calls to the hot set.
BRING_WORDS, BIND_NODES = "bring_words", "bind_nodes"
HOT_SET_KINDS = (BRING_WORDS, BIND_NODES)
# The calls of the dispatcher.
START_TASK, START_GROUP = "start_task", "start_group"
QUEUE_TASK, DROP_TASK = "queue_task", "drop_task"
REQUEST_DOWNLOAD = "request_download"
PROBE, END_PROBE = "probe", "end_probe"
SETTLE_CONTEST = "settle_contest"
SECOND_GROUP, END_SECOND_GROUP = "second_group", "end_second_group"
# The outbox's own calls: a no-op that fills a nonce, and a nonce assigned by a lost database and
# read from the chain.
NOOP, REBUILT = "noop", "rebuilt"

# These kinds are exported as zero before their first call, so that alerts have a series.
CALL_KINDS = (
    *(PUSH, *EXPULSION_KINDS, CLEAR_KICK, BRING_OBJECTION, *HOT_SET_KINDS),
    *(START_TASK, START_GROUP, QUEUE_TASK, DROP_TASK, REQUEST_DOWNLOAD),
    *(PROBE, END_PROBE, SETTLE_CONTEST, SECOND_GROUP, END_SECOND_GROUP),
    NOOP,
)
