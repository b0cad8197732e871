"""Every event that the log may tell of, and what it says; a build check holds the list whole.

The page of log events is made from it (`make reference`).
"""

from collections.abc import Mapping

LOG_EVENTS: Mapping[str, str] = {
    "block_read_by_transaction": "A block's answer was larger than `chain.most_answer_mib`, or "
    "not given: it was read by its transactions, at a request for every hundred.",
    "connection_refused": "A listener turned somebody away: which listener, why, the address, and "
    "how many so far; told at the 1st, 2nd, 4th, 8th … of a reason.",
    "disagreement": "Another signer signed something else than ours for the same round or node: "
    "both digests, periods and data hashes, and the block.",
    "gateway_started": "The selection service of a gateway answers from now on: where.",
    "gateway_not_written": "What gateways told could not be written to the database, and is kept "
    "in memory: why; told at the 1st, 2nd, 4th, 8th … time.",
    "stakes_not_read": "A gateway could not read a daemon's database; who is staked there stays "
    "as it was: why; told at the 1st, 2nd, 4th, 8th … time.",
    "endpoint_recovered": "An endpoint whose work another one had taken answers again.",
    "endpoint_leaves_logs_out": "An endpoint's answer lacked logs and did not say so; they were "
    "found elsewhere.",
    "endpoint_outvoted": "An endpoint claimed a fork that the others deny; it was put aside.",
    "endpoint_proven_wrong": "An endpoint told what the block's own roots contradict. It is asked "
    "nothing until `endpoint readmit`.",
    "endpoint_quarantined": "An endpoint is not used: another chain, a contradicted final block, "
    "or a refused key.",
    "endpoint_released": "An endpoint in quarantine was found right, and is used again.",
    "endpoint_replaced": "Another endpoint took the work over: whose, which, and why.",
    "endpoint_slow": "An endpoint is so much slower than another one that it lost its place.",
    "endpoint_contradicted": "An endpoint had left out, made up or changed logs.",
    "equivocation": "A signer signed two statements about one round that could both land.",
    "feed_fault": "The feed contradicts itself or a second one: which fault, at which row. Until "
    "a person accepts it nothing is signed or sent.",
    "finalized_tag_went_back": "For a long time no endpoint showed a block as high as our final "
    "one: the heads are taken as they are shown.",
    "foreign_nonce": "A transaction that we did not sign used a nonce of our key.",
    "holder_gone": "The process that held the lease has ended, or did not renew it for 30 s; this "
    "process took the lease over.",
    "heartbeat_not_delivered": "A heartbeat could not be delivered to a target of `[[notify]]`, "
    "and why. It is not sent again; the next one follows after `heartbeat_seconds`.",
    "health_not_reported": "The cause of the daemon's exit could not be written to the database, "
    "and why. `status` shows the last health report instead.",
    "service_manager_unreachable": "systemd's socket (NOTIFY_SOCKET) accepted no message, so "
    "readiness and keep-alives are not reported. With `WatchdogSec`, systemd restarts the daemon.",
    "http_fault": "Something unexpected failed in a listener's loop; told at the 1st, 2nd, 4th, "
    "8th ….",
    "kickout_needs_review": "A kickout went out, and what it rested on left the chain.",
    "halted": "A halt lasts: nothing is folded or sent until it is cleared.",
    "lease_not_released": "The lease could not be given back at the end; it runs out by itself.",
    "lease_renewal_failed": "The lease could not be renewed. After 20 s of that the process signs "
    "and sends nothing more, and ends.",
    "log_times_differ": "A log's `blockTimestamp` is not its header's time, which was taken.",
    "result_file_unreadable": "A file in `dispatch.results_folder` holds no hash or cannot be "
    "read: which file, and why. The contest of that task waits for another result; repair it.",
    "segment_lost": "A worker died, hung or answered something else while it prepared a range of "
    "history: how often, and why. The range is ordered again.",
    "segment_refused": "A worker gave no segment of a range, and why; the daemon reads it itself.",
    "segment_scheduler_missing": "The scheduler of the cluster does not answer: the daemon reads "
    "history alone meanwhile, and looks for it again every 30 s.",
    "segment_workers_ordered": "History is prepared by so many workers beside the daemon.",
    "segment_workers_missing": "No worker could be started: the daemon reads history alone, more "
    "slowly.",
    "unknown_signature_from_peer": "Another reporter shows a statement with a signature of our "
    "key that this database never made.",
    "notice_not_delivered": "A target of `[[notify]]` did not take a message: which one, why, and "
    "how often in a row; told at the 1st, 2nd, 4th, 8th …. It is tried again.",
    "proposal_not_decoded": "A proposal of a kickout shows no signatures: whether ours is among "
    "them is not known.",
    "report_held": "The sanity gate holds a report until `report release`.",
    "report_waiting": "What the reports wait for; told when it changes.",
    "reporting_as": "At the start: contract, signer, transmitter, rank, quorum, signers, peers.",
    "conflicting_statement_refused": "We did not sign a statement, because an earlier one of its "
    "round may still land.",
    "account_nonce_ahead": "The chain has counted more transactions of our account than this "
    "database gave out: somebody else uses the key.",
    "transaction_missing_effect": "A transaction succeeded without its event.",
    "unknown_signature_on_chain": "An accepted round or a proposed kickout has a signature of our "
    "key that this database never made; we sign nothing for a while.",
    "standby": "Another process leads on this database, and this one waits for its lease: who "
    "leads, and the epoch of the lease. Told again when another one leads.",
    "standby_started": "With `--standby`: the process serves HTTP, where it says, and "
    "looks for the lease.",
    "serving": "The read API answers: version, and at which address.",
    "read_api_unanswered": "A question got 503: why, which who asked is not told, and how many so "
    "far; told at the 1st, 2nd, 4th, 8th ….",
    "events_not_read": "Streams of events wait, as the database could not be read: why.",
    "started": "The daemon works: version, chain, address of HTTP, whether it publishes and "
    "dispatches, epoch of the lease.",
    "state_mismatch": "Rows of the state differ from a fold of the stored logs; `reason` names "
    "them. Nothing is reported, started or kicked out until `resync rebuild`, or until a "
    "comparison finds no difference.",
    "statement_given_up": "A statement was tried five times, each taken back by a fork; it is "
    "not sent any more.",
    "step_completed": "A step of the daemon did something: what it did, and the facts of it.",
    "step_failed": "A step failed and is tried again; told at the 1st, 2nd, 4th, 8th … in a row.",
    "step_recovered": "A step that had failed works again.",
    "stopped": "The process ends; by which signal.",
    "statement_from_unknown_signer": "A peer showed a statement of somebody who is no signer.",
    "calibration_lost": "Blooms, roots or hashes that 20 blocks had "
    "proven are not true any more: less is proven from now on.",
    "waiting_for_endpoint": "No endpoint that may be used answers: how long the daemon waits, and "
    "why.",
    "waiting_for_lease": "Who held the lease may be dead: the daemon waits until it is over.",
    "websocket_ended": "The websocket was given up; polling goes on.",
}
