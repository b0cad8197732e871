"""Declares all log events, each with its meaning, its effect and the action to take.

A test compares this list with the log calls in the code, and `make reference` generates
docs/reference/log-events.md from it.
"""

from collections.abc import Mapping

LOG_EVENTS: Mapping[str, str] = {
    "account_nonce_ahead": "The chain counts more transactions of the daemon's account than this "
    "database sent, so another program uses the key or the database is an old copy. The account "
    "is paused. Find out who uses the key, and follow the steps in `act`.",
    "block_fetched_per_transaction": "A block's response exceeded `chain.max_response_mib`, or "
    "the endpoint refused to send it. The daemon fetched the block's transactions or receipts "
    "(`what`) one by one, with one request for every hundred of them.",
    "conflicting_statement_refused": "The daemon refused to sign a statement, because an earlier "
    "statement of the same round may still be accepted. `asked` and `signed` are the digests of "
    "the two statements.",
    "connection_refused": "The listener `listener` refused a connection from `address` for the "
    "reason in `reason`. `in_all` is the number of refusals for this reason. Logged at the 1st, "
    "2nd, 4th, 8th … refusal for a reason.",
    "contract_signature_unchecked": "An objection or a subscription was signed by an account that "
    "may be a contract, and no endpoint responded, so the signature could not be checked and the "
    "request was refused. The node can post it again.",
    "daemon_halted": "A halt is active: nothing is indexed, signed or sent until you clear it. "
    "`reason` has the cause.",
    "daemon_started": "The daemon is running. The fields are its version, the chain, the HTTP "
    "addresses, whether it publishes and dispatches, and the epoch of its lease.",
    "endpoint_contradicted": "An endpoint had omitted, invented or changed logs. The verified "
    "logs were stored, and the endpoint is deprioritised for a while.",
    "endpoint_head_refuted": "An endpoint announced a newest block that it cannot return and that "
    "no other endpoint has reached. Another endpoint's lower newest block is used instead.",
    "endpoint_omitted_logs": "An endpoint's response lacked logs but reported no error. The "
    "missing logs were fetched in another way; `missing` is their number.",
    "endpoint_outvoted": "An endpoint claimed a fork that all other endpoints deny. The endpoint "
    "is not used until it agrees with them.",
    "endpoint_proven_wrong": "An endpoint's response contradicts the roots in the block's header. "
    "The endpoint is not used until you run `endpoint readmit`.",
    "endpoint_quarantined": "An endpoint is no longer used, because it serves another chain, "
    "contradicts a final block, or refuses the API key.",
    "endpoint_recovered": "An endpoint that had failed responds again, and can be used again.",
    "endpoint_released": "The check of a quarantined endpoint succeeded, and the endpoint is "
    "used again.",
    "endpoint_replaced": "The endpoint `by` took over the work of the endpoint `endpoint`; "
    "`reason` has the cause.",
    "endpoint_slow": "An endpoint was deprioritised because its responses take `by_seconds` "
    "longer than those of another endpoint.",
    "endpoints_share_address": "Endpoints that count as different providers have the same IP "
    "address, so one machine may confirm its own responses; see `reason`. Logged at startup.",
    "event_stream_read_failed": "Event streams are paused because the database could not be read; "
    "`reason` has the cause.",
    "feed_fault_detected": "The feed contradicts itself or a second feed; `kind`, `row` and "
    "`detail` describe the fault. Nothing is signed or sent until you accept the fault with `feed "
    "accept`.",
    "finalized_tag_regressed": "For a minute, no endpoint returned a block as high as the "
    "daemon's final block. The daemon now follows the heads that the endpoints return.",
    "foreign_nonce_used": "A transaction that this database did not sign used a nonce of the "
    "daemon's key. Find out who else uses the key.",
    "gateway_started": "The gateway's selection service accepts requests at `address`.",
    "gateway_write_failed": "Outcomes reported by gateways could not be written to the database, "
    "and remain in memory until a write succeeds; `reason` has the cause. Logged at the 1st, 2nd, "
    "4th, 8th … failure.",
    "health_write_failed": "The cause of the daemon's exit could not be written to the database; "
    "`reason` has the database error. `status` still shows the health report that was stored "
    "before.",
    "heartbeat_delivery_failed": "A heartbeat could not be delivered to the target `target` of "
    "`[[notify]]`; `reason` has the cause. This heartbeat is not sent again; the next one follows "
    "after `heartbeat_seconds`.",
    "http_listener_failed": "An unexpected error occurred in a listener's loop; `reason` and "
    "`error` describe it. Logged at the 1st, 2nd, 4th, 8th … error.",
    "kickout_needs_review": "A kickout was sent, and then a reorg removed its evidence from the "
    "chain. Review the kickout of `node`, and cancel it if the node was not due.",
    "lease_release_failed": "The lease could not be released at exit. The lease expires by itself "
    "after 30 s.",
    "lease_renewal_failed": "The lease could not be renewed. After 20 s without a renewal the "
    "process stops signing and sending, and exits.",
    "log_timestamp_mismatch": "A log's `blockTimestamp` differs from the block header; the "
    "header's time is used.",
    "native_module_ignored": "The installed native code (`oracle_native`) is ignored because it "
    "has version `version`, but this release needs version `required`. Ingest, selection and "
    "roots are slower. Install the native code of this release.",
    "notice_delivery_failed": "The target `target` of `[[notify]]` did not accept a message; "
    "`reason` has the cause, and `in_a_row` is the number of consecutive failures. The message is "
    "sent again later. Logged at the 1st, 2nd, 4th, 8th … failure.",
    "process_stopped": "The process exits because it received the signal in `by`.",
    "read_api_started": "The read API accepts requests at the address in `api`.",
    "read_api_unavailable": "A request got status 503. `reason` has the cause, which is not sent "
    "to the client; `in_all` is the number of such requests so far. Logged at the 1st, 2nd, 4th, "
    "8th … request.",
    "report_deferred": "Reports cannot be sent at the moment; `reason` has the cause. Logged "
    "when the cause changes.",
    "report_held": "The sanity gate holds a report until you run `report release`; `reason` has "
    "the cause. A report whose leaves differ from the nodes cannot be released.",
    "report_root_mismatch": "Another signer signed a different report for the same round. The "
    "fields are both roots, both periods, and the digest and the block of the other report. "
    "`report diff` shows the first leaf that differs.",
    "reporter_started": "Reporting is configured. The fields are the contract, the signer, the "
    "transmitter and its rank, the quorum, the signers, the round and the peers.",
    "result_file_unreadable": "A file in `dispatch.results_folder` contains no hash or cannot be "
    "read; `reason` has the cause. The contest of that task waits for another result; repair the "
    "file.",
    "rules_preview_failed": "The worker that previews other rules failed, and is restarted after "
    "a minute. The cause is on stderr.",
    "rules_switch_failed": "The contract has other rules, and the daemon could not switch to "
    "them; `reason` has the cause. The database is unchanged, and nothing is published.",
    "rules_switched": (
        "The database was folded again with the rules that came into force (or with the previous "
        "rules, after a reorg), and the daemon continues with these rules."
    ),
    "segment_refused": "A worker could not prepare a range of history; `reason` has the cause. "
    "The daemon prepares the range itself.",
    "segment_scheduler_unreachable": "The cluster's scheduler does not respond. The daemon reads "
    "history without workers and retries the scheduler every 30 s.",
    "segment_worker_failed": "A worker died, hung or returned an invalid segment while it "
    "prepared a range of history. `times` is the number of workers that failed at this range, and "
    "`reason` has the cause. The range is scheduled again.",
    "segment_workers_started": "Worker processes were started to prepare history; `workers` is "
    "the number of processes.",
    "segment_workers_unavailable": "No worker could be started; `reason` has the cause. The "
    "daemon reads history without workers, which is slower.",
    "service_manager_unreachable": "systemd's socket (NOTIFY_SOCKET) accepted no message, so "
    "systemd learns neither that the daemon is ready nor that it is alive. With `WatchdogSec`, "
    "systemd restarts the daemon.",
    "signer_equivocated": "A signer signed two statements for one round that could both be "
    "accepted. Find out from the signer's operator whether the key is used elsewhere.",
    "simulation_outvoted": "Three times in a row, an endpoint reported a different outcome of "
    "simulated calls from most endpoints. The outcome of the majority is used, and the endpoint "
    "is deprioritised.",
    "stakes_read_failed": "A gateway could not read the database of a daemon, and continues with "
    "its last list of staked nodes; `reason` has the cause. Logged at the 1st, 2nd, 4th, 8th … "
    "failure.",
    "stale_lease_taken_over": "The process that held the lease ended, or did not renew the lease "
    "for 30 s. This process holds the lease now.",
    "standby_started": "A process with `--standby` serves HTTP and checks the lease regularly.",
    "state_mismatch": "Rows of the state differ from a fold of the stored logs; `reason` names "
    "them. Nothing is reported, started or kicked out until you run `resync rebuild`, or until a "
    "comparison finds no difference.",
    "statement_abandoned": "A statement was sent `tries` times, and a reorg removed it each time. "
    "The statement is not sent again; the next statement follows after `until`. `endpoint probe` "
    "shows which endpoint is on another fork.",
    "statement_from_unknown_signer": "The peer `host` sent a statement that was signed by an "
    "address outside the signer set.",
    "subscription_created": "The owner of a node subscribed to notices about the node. The "
    "address of the webhook or mailbox is not logged.",
    "subscription_ended": "The daemon ended a subscription of a node's owner; `reason` has the "
    "cause, which the owner can see in the list of subscriptions. No action is needed unless your "
    "configuration is the cause: for a webhook in your own network, set "
    "`subscriptions.allow_private`.",
    "step_completed": "The step `step` of the daemon changed something; the other fields list the "
    "changes.",
    "step_failed": "The step `step` of the daemon failed and is retried; `reason` has the cause. "
    "Logged at the 1st, 2nd, 4th, 8th … consecutive failure.",
    "step_recovered": "The step `step` succeeded after `failures` consecutive failures.",
    "stored_leaves_corrected": "After a start, `leaves` leaves of the last report in the database "
    "differed from those of the nodes and were replaced, because the earlier process had computed "
    "or stored them wrongly. Check its reports with `report verify`.",
    "transaction_missing_effect": "A transaction succeeded without emitting the expected event, "
    "which is named in `missing`. The call is held; check that the address belongs to the "
    "expected contract.",
    "unknown_signature_from_peer": "Another reporter has a statement that was signed with this "
    "daemon's key, but the signature is not in this database. Check who else has the key.",
    "unknown_signature_on_chain": "An accepted round has a signature that was made with the "
    "daemon's key, but is not in this database. The daemon signs nothing for a time; check who "
    "else has the key.",
    "unsent_calls_taken_over": "An account's key was replaced. The new account sends the calls "
    "that the earlier account had planned but not sent; `calls` is their number.",
    "verification_downgraded": "A block contradicts a feature that had been proven with 20 "
    "blocks, such as blooms, roots or header hashes; `feature` names it. From this block on, the "
    "verification level is lower.",
    "waiting_for_endpoint": "No usable endpoint responds, so the daemon waits; `reason` has the "
    "cause. `seconds`, if present, is the length of the wait.",
    "waiting_for_lease": "Another process, named in `leader`, holds the lease of this database, "
    "and this process waits for it. Logged again when the leader changes.",
    "waiting_for_lease_expiry": "The holder of the lease may be dead. This process starts when "
    "the lease expires.",
    "websocket_closed": "The websocket failed and was closed; the daemon polls for new blocks "
    "instead.",
}
