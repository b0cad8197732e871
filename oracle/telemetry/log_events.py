"""All events of the log, each with its meaning, its effect and what to do.

A test compares this list with the log calls in the code; `make reference` writes
docs/reference/log-events.md from it.
"""

from collections.abc import Mapping

LOG_EVENTS: Mapping[str, str] = {
    "account_nonce_ahead": "The chain counts more transactions of the daemon's account than this "
    "database sent. Somebody else uses the key.",
    "block_fetched_per_transaction": "A block's response exceeded `chain.max_response_mib`, or "
    "the endpoint refused to send it. The daemon fetched the block transaction by transaction, "
    "one request for every hundred.",
    "conflicting_statement_refused": "The daemon did not sign a statement, because an earlier "
    "statement of the same round may still land.",
    "connection_refused": "A listener refused a connection: listener, reason, address, and the "
    "total so far. Logged at the 1st, 2nd, 4th, 8th … refusal for a reason.",
    "daemon_halted": "A halt is open: nothing is indexed, signed or sent until you clear it.",
    "daemon_started": "The daemon is running: version, chain, HTTP address, whether it publishes "
    "and dispatches, and the lease's epoch.",
    "endpoint_contradicted": "An endpoint had omitted, invented or changed logs; the verified "
    "logs were stored.",
    "endpoint_omitted_logs": "An endpoint's response lacked logs without an error. The missing "
    "logs were fetched from another endpoint.",
    "endpoint_outvoted": "An endpoint claimed a fork that all other endpoints deny. The endpoint "
    "is not used until it agrees with them.",
    "endpoint_proven_wrong": "An endpoint's response contradicts the roots in the block's header. "
    "The endpoint is not used until you run `endpoint readmit`.",
    "endpoint_quarantined": "An endpoint is not used any more: it serves another chain, "
    "contradicts a final block, or refuses the API key.",
    "endpoint_recovered": "An endpoint that had been replaced responds again.",
    "endpoint_released": "A quarantined endpoint was found correct and is used again.",
    "endpoint_replaced": "Another endpoint took over the work of an endpoint: both names, and the "
    "reason.",
    "endpoint_slow": "An endpoint lost its rank because it is much slower than another endpoint.",
    "event_stream_read_failed": "Event streams wait because the database could not be read: the "
    "error.",
    "feed_fault_detected": "The feed contradicts itself or a second feed: the fault and the row. "
    "Nothing is signed or sent until an operator accepts the fault.",
    "finalized_tag_regressed": "For a long time no endpoint returned a block as high as the "
    "daemon's final block. The daemon now follows the heads that the endpoints return.",
    "foreign_nonce_used": "A transaction that this database did not sign used a nonce of the "
    "daemon's key.",
    "gateway_started": "The gateway's selection service accepts requests: its address.",
    "gateway_write_failed": "Outcomes reported by gateways could not be written to the database "
    "and are buffered in memory: the error. Logged at the 1st, 2nd, 4th, 8th … failure.",
    "health_write_failed": "The reason of the daemon's exit could not be written to the database: "
    "the error. `status` shows the last stored health report instead.",
    "heartbeat_delivery_failed": "A heartbeat could not be delivered to a target of `[[notify]]`: "
    "the error. The heartbeat is not repeated; the next one follows after `heartbeat_seconds`.",
    "http_listener_failed": "An unexpected error in a listener's loop. Logged at the 1st, 2nd, "
    "4th, 8th … error.",
    "kickout_needs_review": "A kickout was sent, and a fork then removed its evidence from the "
    "chain. Review the kickout and cancel it if the node was not due.",
    "lease_release_failed": "The lease could not be released at exit. The lease expires by itself "
    "after 30 s.",
    "lease_renewal_failed": "The lease could not be renewed. After 20 s without a renewal the "
    "process stops signing and sending, and exits.",
    "log_timestamp_mismatch": "A log's `blockTimestamp` differs from the block header; the "
    "header's time is used.",
    "notice_delivery_failed": "A target of `[[notify]]` did not accept a message: target, error, "
    "and consecutive failures. The message is retried. Logged at the 1st, 2nd, 4th, 8th … "
    "failure.",
    "process_stopped": "The process exits: the signal.",
    "proposal_decode_failed": "The signatures of a proposed kickout could not be decoded, so the "
    "daemon cannot check whether its own key signed.",
    "read_api_started": "The read API accepts requests: version and address.",
    "read_api_unavailable": "A request got status 503: the reason, which is not sent to the "
    "client, and the total so far. Logged at the 1st, 2nd, 4th, 8th … request.",
    "report_deferred": "Reports cannot be sent yet: the reason. Logged when the reason changes.",
    "report_digest_mismatch": "Another signer signed a different digest for the same round or "
    "node: both digests, periods and data hashes, and the block.",
    "report_held": "The sanity gate holds a report until you run `report release`.",
    "reporter_started": "Reporting is configured: contract, signer, transmitter, rank, quorum, "
    "signers and peers.",
    "result_file_unreadable": "A file in `dispatch.results_folder` holds no hash or cannot be "
    "read: the file and the error. The contest of that task waits for another result; repair the "
    "file.",
    "segment_refused": "A worker could not prepare a range of history: the reason. The daemon "
    "reads the range itself.",
    "segment_scheduler_unreachable": "The cluster's scheduler does not respond. The daemon reads "
    "history alone and retries the scheduler every 30 s.",
    "segment_worker_failed": "A worker died, hung or returned an invalid segment while it "
    "prepared a range of history: the number of attempts and the error. The range is scheduled "
    "again.",
    "segment_workers_started": "Workers beside the daemon prepare history: how many.",
    "segment_workers_unavailable": "No worker could be started. The daemon reads history alone, "
    "more slowly.",
    "service_manager_unreachable": "systemd's socket (NOTIFY_SOCKET) accepted no message, so "
    "readiness and keep-alives are not reported. With `WatchdogSec`, systemd restarts the daemon.",
    "signer_equivocated": "A signer signed two statements about one round, and both could land.",
    "stakes_read_failed": "A gateway could not read a daemon's database and keeps its last list "
    "of staked nodes: the error. Logged at the 1st, 2nd, 4th, 8th … failure.",
    "stale_lease_taken_over": "The process that held the lease ended, or did not renew it for 30 "
    "s. This process holds the lease now.",
    "standby_started": "A process with `--standby` serves HTTP and checks the lease regularly.",
    "state_mismatch": "Rows of the state differ from a fold of the stored logs; `reason` names "
    "them. Nothing is reported, started or kicked out until you run `resync rebuild`, or until a "
    "comparison finds no difference.",
    "statement_abandoned": "A statement was sent five times, and a fork removed it each time. The "
    "statement is not sent again.",
    "statement_from_unknown_signer": "A peer sent a statement that was signed by an address "
    "outside the signer set.",
    "step_completed": "A step of the daemon changed something: the change and its details.",
    "step_failed": "A step failed and is retried. Logged at the 1st, 2nd, 4th, 8th … consecutive "
    "failure.",
    "step_recovered": "A step succeeded after failures.",
    "transaction_missing_effect": "A transaction succeeded without emitting its event.",
    "unknown_signature_from_peer": "Another reporter holds a statement with a signature of this "
    "daemon's key that this database never made. Check who else has the key.",
    "unknown_signature_on_chain": "An accepted round or a proposed kickout carries a signature of "
    "the daemon's key that this database never made. The daemon pauses signing; check who else "
    "has the key.",
    "verification_downgraded": "Blooms, roots or hashes that 20 blocks had matched do not match "
    "any more, so the daemon verifies less from this block on.",
    "waiting_for_endpoint": "No usable endpoint responds: how long the daemon waits, and the "
    "reason.",
    "waiting_for_lease": "Another process leads on this database, and this process waits for the "
    "lease: the leader and the lease's epoch. Logged again when the leader changes.",
    "waiting_for_lease_expiry": "The holder of the lease may be dead. The daemon starts when the "
    "lease expires.",
    "websocket_closed": "The websocket failed and was closed; the daemon polls for new blocks "
    "instead.",
}
