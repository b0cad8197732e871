"""Declares all events of the log, each with its meaning, its effect and the action to take.

A test compares this list with the log calls in the code, and `make reference` generates
docs/reference/log-events.md from it.
"""

from collections.abc import Mapping

LOG_EVENTS: Mapping[str, str] = {
    "account_nonce_ahead": "The chain counts more transactions of the daemon's account than this "
    "database sent, so another program uses the key. Find out which program or person has the "
    "key.",
    "block_fetched_per_transaction": "A block's response exceeded `chain.max_response_mib`, or "
    "the endpoint refused to send it. The daemon fetched the block transaction by transaction, "
    "with one request for every hundred transactions.",
    "conflicting_statement_refused": "The daemon did not sign a statement, because an earlier "
    "statement of the same round may still be accepted.",
    "connection_refused": "A listener refused a connection. The fields are the listener, the "
    "reason, the client's address and the total so far. Logged at the 1st, 2nd, 4th, 8th … "
    "refusal for a reason.",
    "contract_signature_unchecked": "A node that may be a contract signed an objection or a "
    "subscription, and no endpoint responded, so the request was refused. The node can post it "
    "again.",
    "daemon_halted": "A halt is open: nothing is indexed, signed or sent until you clear it.",
    "daemon_started": "The daemon is running. The fields are its version, the chain, the HTTP "
    "addresses, whether it publishes and dispatches, and the lease's epoch.",
    "endpoint_contradicted": "An endpoint had omitted, invented or changed logs; the verified "
    "logs were stored.",
    "endpoint_head_refuted": "An endpoint showed a newest block that it does not return and that "
    "no other endpoint has reached. The lower newest block of another endpoint is used.",
    "endpoint_omitted_logs": "An endpoint's response lacked logs without an error. The missing "
    "logs were fetched from another endpoint.",
    "endpoint_outvoted": "An endpoint claimed a fork that all other endpoints deny. The endpoint "
    "is not used until it agrees with them.",
    "endpoint_proven_wrong": "An endpoint's response contradicts the roots in the block's header. "
    "The endpoint is not used until you run `endpoint readmit`.",
    "endpoint_quarantined": "An endpoint is no longer used: it serves another chain, "
    "contradicts a final block, or refuses the API key.",
    "endpoint_recovered": "An endpoint that had been replaced responds again.",
    "endpoint_released": "The check of a quarantined endpoint succeeded, and the endpoint is "
    "used again.",
    "endpoint_replaced": "Another endpoint, named in `by`, took over the work of this endpoint; "
    "`reason` has the cause.",
    "endpoint_slow": "An endpoint was deprioritised because it is much slower than another "
    "endpoint.",
    "endpoints_share_address": "Endpoints that count as different providers have the same IP "
    "address, so one machine may confirm its own responses; see `reason`. Logged at the start.",
    "event_stream_read_failed": "Event streams are paused because the database could not be read; "
    "`reason` has the cause.",
    "feed_fault_detected": "The feed contradicts itself or a second feed; `kind`, `row` and "
    "`detail` describe the fault. Nothing is signed or sent until an operator accepts the fault.",
    "finalized_tag_regressed": "For a long time no endpoint returned a block as high as the "
    "daemon's final block. The daemon now follows the heads that the endpoints return.",
    "foreign_nonce_used": "A transaction that this database did not sign used a nonce of the "
    "daemon's key.",
    "gateway_started": "The gateway's selection service accepts requests at `address`.",
    "gateway_write_failed": "Outcomes reported by gateways could not be written to the database "
    "and are buffered in memory; `reason` has the cause. Logged at the 1st, 2nd, 4th, 8th … "
    "failure.",
    "health_write_failed": "The cause of the daemon's exit could not be written to the database; "
    "`reason` has the database error. `status` shows the last stored health report instead.",
    "heartbeat_delivery_failed": "A heartbeat could not be delivered to a target of `[[notify]]`; "
    "`reason` has the cause. The heartbeat is not repeated; the next one follows after "
    "`heartbeat_seconds`.",
    "http_listener_failed": "An unexpected error occurred in a listener's loop. Logged at the "
    "1st, 2nd, 4th, 8th … error.",
    "kickout_needs_review": "A kickout was sent, and a reorg then removed its evidence from the "
    "chain. Review the kickout and cancel it if the node was not due.",
    "lease_release_failed": "The lease could not be released at exit. The lease expires by itself "
    "after 30 s.",
    "lease_renewal_failed": "The lease could not be renewed. After 20 s without a renewal the "
    "process stops signing and sending, and exits.",
    "log_timestamp_mismatch": "A log's `blockTimestamp` differs from the block header; the "
    "header's time is used.",
    "native_module_ignored": "The installed native code (`oracle_native`) is ignored because its "
    "version differs from the version of this release; ingest, selection and roots are slower. "
    "The fields show both versions. Install the native code of this release.",
    "notice_delivery_failed": "A target of `[[notify]]` did not accept a message. The fields are "
    "the target, the reason and the number of consecutive failures. The message is retried. "
    "Logged at the 1st, 2nd, 4th, 8th … failure.",
    "process_stopped": "The process exits because of the signal in `by`.",
    "read_api_started": "The read API accepts requests at the address in `api`.",
    "read_api_unavailable": "A request got status 503. `reason` has the cause, which is not sent "
    "to the client, and `in_all` the total so far. Logged at the 1st, 2nd, 4th, 8th … request.",
    "report_deferred": "Reports cannot be sent at the moment; `reason` has the cause. Logged "
    "when the cause changes.",
    "report_held": "The sanity gate holds a report until you run `report release`. A report whose "
    "leaves differ from the nodes cannot be released.",
    "report_root_mismatch": "Another signer signed a different report for the same round. The "
    "fields are both roots and periods, its digest, and the block.",
    "reporter_started": "Reporting is configured. The fields are the contract, signer, "
    "transmitter, rank, quorum, signers, round and peers.",
    "result_file_unreadable": "A file in `dispatch.results_folder` contains no hash or cannot be "
    "read; `reason` has the cause. The contest of that task waits for another result; repair the "
    "file.",
    "rules_preview_failed": "The worker that previews other rules failed and is restarted after a "
    "minute. The reason is on stderr.",
    "rules_switch_failed": "The contract has other rules, and the daemon could not switch to "
    "them; `reason` has the cause. The database is unchanged, and nothing is published.",
    "rules_switched": (
        "The database was folded again with the rules that came into force (or with the previous "
        "rules, after a reorg), and the daemon continues with these rules."
    ),
    "segment_refused": "A worker could not prepare a range of history; `reason` has the cause. "
    "The daemon prepares the range itself.",
    "segment_scheduler_unreachable": "The cluster's scheduler does not respond. The daemon reads "
    "history alone and retries the scheduler every 30 s.",
    "segment_worker_failed": "A worker died, hung or returned an invalid segment while it "
    "prepared a range of history; `times` is the number of attempts, and `reason` has the cause. "
    "The range is scheduled again.",
    "segment_workers_started": "Worker processes prepare history; `workers` is their number.",
    "segment_workers_unavailable": "No worker could be started. The daemon reads history alone, "
    "more slowly.",
    "service_manager_unreachable": "systemd's socket (NOTIFY_SOCKET) accepted no message, so "
    "readiness and keep-alives are not reported. With `WatchdogSec`, systemd restarts the daemon.",
    "signer_equivocated": "A signer signed two statements for one round that could both be "
    "accepted.",
    "simulation_outvoted": "An endpoint reported another outcome of simulated calls than most "
    "endpoints, three times in a row. The majority counts, and the endpoint is deprioritised.",
    "stakes_read_failed": "A gateway could not read a daemon's database and keeps its last list "
    "of staked nodes; `reason` has the cause. Logged at the 1st, 2nd, 4th, 8th … failure.",
    "stale_lease_taken_over": "The process that held the lease ended, or did not renew it for 30 "
    "s. This process holds the lease now.",
    "standby_started": "A process with `--standby` serves HTTP and checks the lease regularly.",
    "state_mismatch": "Rows of the state differ from a fold of the stored logs; `reason` names "
    "them. Nothing is reported, started or kicked out until you run `resync rebuild`, or until a "
    "comparison finds no difference.",
    "statement_abandoned": "A statement was sent five times, and a reorg removed it each time. "
    "The statement is not sent again.",
    "statement_from_unknown_signer": "A peer sent a statement that was signed by an address "
    "outside the signer set.",
    "subscription_created": "The owner of a node subscribed to its notices. The address of the "
    "webhook or mailbox is not logged.",
    "subscription_ended": (
        "The daemon ended the subscription of a node's owner for the reason in `reason`, which "
        "the owner can list. Do nothing, unless your configuration is the reason: for a webhook "
        "in your own network, set `subscriptions.allow_private`."
    ),
    "step_completed": "A step of the daemon changed something; the fields list the changes.",
    "step_failed": "A step failed and is retried. Logged at the 1st, 2nd, 4th, 8th … consecutive "
    "failure.",
    "step_recovered": "A step succeeded after failures.",
    "stored_leaves_corrected": "After a start, leaves of the last report in the database differed "
    "from those of the nodes and were replaced: the earlier process computed or stored them "
    "wrongly. Check its reports with `report verify`.",
    "transaction_missing_effect": "A transaction succeeded without emitting the expected event. "
    "The call is held; check that the address belongs to the expected contract.",
    "unknown_signature_from_peer": "Another reporter has a statement with a signature of this "
    "daemon's key that is not in this database. Check who else has the key.",
    "unknown_signature_on_chain": "An accepted round has a signature of the daemon's key that is "
    "not in this database. The daemon pauses signing; check who else has the key.",
    "unsent_calls_taken_over": "An account's key was replaced. The new account sends the calls "
    "that the earlier one had planned but not sent.",
    "verification_downgraded": "Blooms, roots or hashes of headers, which were proven with 20 "
    "blocks, no longer match, so from this block on the verification level is lower.",
    "waiting_for_endpoint": "No usable endpoint responds, so the daemon waits; `reason` has the "
    "cause, and `seconds` the length of the wait.",
    "waiting_for_lease": "Another process, named in `leader`, holds the lease of this database, "
    "and this process waits for it. Logged again when the leader changes.",
    "waiting_for_lease_expiry": "The holder of the lease may be dead. The daemon starts when the "
    "lease expires.",
    "websocket_closed": "The websocket failed and was closed; the daemon polls for new blocks "
    "instead.",
}
