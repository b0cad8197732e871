// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title Events about nodes and tasks
/// @notice The events are complete: the network can be followed without calldata or calls. In one transaction, the
/// event that ends a task comes before the membership event that it causes, and GroupValidated before all other events
/// of the validation.
interface NetworkEvents {
    // --- Nodes ---

    /// @notice A node joined, or rejoined. The stake is in wei, the memory in whole GB; `models` are on the node's disk.
    event NodeJoined(
        address indexed node,
        uint256 stake,
        string gpuName,
        uint32 gpuVram,
        uint16 major,
        uint16 minor,
        uint16 patch,
        string[] models
    );

    /// @notice The node now runs another version of the software.
    event NodeVersionUpdated(address indexed node, uint16 major, uint16 minor, uint16 patch);

    /// @notice The node's stake is now `stake` wei.
    event NodeStakeChanged(address indexed node, uint256 stake);

    /// @notice The node answers any task within `timeout` seconds of its start, or within the task's own time if less.
    event NodeTimeoutSet(address indexed node, uint32 timeout);

    /// @notice The node has another model on disk.
    event ModelAdded(address indexed node, string model);

    /// @notice The node should download the model, which few available nodes have, and call addModel. The request is
    /// not repeated until `until`, unix seconds.
    event DownloadRequested(address indexed node, string model, uint256 until);

    /// @notice The node gets no tasks until it resumes; a running task may still be answered.
    event NodePaused(address indexed node);

    /// @notice The node gets tasks again.
    event NodeResumed(address indexed node);

    /// @notice The node left voluntarily. Emitted when all its answers are judged.
    event NodeQuit(address indexed node);

    /// @notice The node's answer is not the verdict of its group, or was not revealed in time, or the group has no
    /// verdict and another answer was not revealed: the stake is held for a second group's result, or to the end of the
    /// window.
    event NodeContested(address indexed node, bytes32 indexed task);

    /// @notice The contest is over without proof against the node: its stake is no longer held for it.
    event NodeCleared(address indexed node, bytes32 indexed task);

    /// @notice The node gave a wrong result, as two groups found: it loses `amount` wei, its whole stake, and its
    /// membership.
    event NodeSlashed(address indexed node, uint256 amount);

    /// @notice The oracle ended the membership. `stake` wei, all of it, is held until none of the node's answers waits
    /// for its judgement. `evidence` is the hash of the scores in the node's leaf; 0: the node left while it was
    /// accused.
    event NodeKickedOut(address indexed node, uint256 stake, bytes32 evidence);

    /// @notice The stake of a former member, `amount` wei, was credited to it.
    event StakeReturned(address indexed node, uint256 amount);

    /// @notice A former member had given a wrong result: it loses its whole stake, `amount` wei.
    event StakeForfeited(address indexed node, uint256 amount);

    // --- Tasks ---

    /// @notice A task was created and paid for.
    /// @param task keccak256(abi.encode(creator, the id that the creator chose))
    /// @param group keccak256(abi.encode(creator, the group id that the creator chose)), 0 = none
    /// @param fee wei
    /// @param kind 0 stable diffusion, 1 language model, 2 fine tuning
    /// @param minVram minimum GPU memory in GB, if no GPU is required by name
    /// @param requiredGpu exact name of the GPU, empty = any
    /// @param requiredGpuVram its exact memory in GB, if a name is given
    /// @param major the node's major version must be this, (minor, patch) at least these
    /// @param size units of work, at least 1
    /// @param timeout seconds that a node has from its start
    /// @param groupSize final number of the group's tasks, 0 = no group
    event TaskCreated(
        bytes32 indexed task,
        address indexed creator,
        bytes32 indexed group,
        uint256 fee,
        uint8 kind,
        uint32 minVram,
        string requiredGpu,
        uint32 requiredGpuVram,
        string[] models,
        uint16 major,
        uint16 minor,
        uint16 patch,
        uint32 size,
        uint32 timeout,
        uint8 groupSize
    );

    /// @notice No node was free for the task.
    event TaskQueued(bytes32 indexed task);

    /// @notice The node was drawn for the task, by a seed from the hash of block `asOf`; TaskStarted follows.
    event TaskDrawn(bytes32 indexed task, address indexed node, uint256 asOf);

    /// @notice A whole group was started at once; TaskStarted follows for each of its tasks.
    /// @param tasks all of its tasks
    /// @param nodes their nodes, in the same order
    event GroupStarted(bytes32 indexed group, bytes32[] tasks, address[] nodes);

    /// @notice The task was started on a node; its clock starts.
    event TaskStarted(bytes32 indexed task, address indexed node);

    /// @notice The node submitted its result of a task in no group; the clock stops. The node is free.
    event TaskSubmitted(bytes32 indexed task, address indexed node, bytes32 resultHash);

    /// @notice The node reported that a task in no group cannot be run; the clock stops. The node is free.
    event TaskErrorReported(bytes32 indexed task, address indexed node);

    /// @notice The node committed to a hidden answer to a task of a group. The commitment stops the clock and determines
    /// the rank. The node is free.
    /// @param commitment keccak256(abi.encode(task, node, answer, salt)); answer as in TaskRevealed, 0 = cannot be run
    event TaskCommitted(bytes32 indexed task, address indexed node, bytes32 commitment);

    /// @notice The node revealed the answer that it committed to.
    /// @param answer keccak256(abi.encode(group, hash of the result)), which is of no use in another group
    event TaskRevealed(bytes32 indexed task, address indexed node, bytes32 answer);

    /// @notice The node revealed that its committed answer is an error report: the task cannot be run.
    event TaskErrorRevealed(bytes32 indexed task, address indexed node);

    /// @notice The node, which timed out because it did not reveal in time, revealed its answer for the contest.
    event AnswerShownLate(bytes32 indexed task, address indexed node, bytes32 answer);

    /// @notice The result was accepted, as that of a single task or of a group's task.
    event TaskValidated(bytes32 indexed task);

    /// @notice The creator had the group compared. `tasks` are all its members in the creator's order. Emitted for
    /// every comparison, whatever its outcome: the group is closed, and its ranks are final.
    event GroupValidated(bytes32 indexed group, bytes32[] tasks);

    /// @notice A second group, `second`, repeats the work of the contested `group`: the same order, other nodes.
    event GroupRevalidates(bytes32 indexed group, bytes32 indexed second);

    /// @notice The group pays by points: of the fee of the fastest node's task, `amount` wei went to this node. Emitted
    /// for each right answer, before their tasks end.
    event FeeShared(bytes32 indexed task, address indexed node, uint256 amount);

    /// @notice The task succeeded; the fee went to the node, unless FeeShared was emitted for it.
    event TaskSucceeded(bytes32 indexed task, address indexed node);

    /// @notice The task succeeded as a second opinion: the result matched, the fee went back to the creator.
    event TaskRefunded(bytes32 indexed task, address indexed node);

    /// @notice The answer differs from the majority's; the fee went back to the creator, NodeContested follows.
    event TaskInvalidated(bytes32 indexed task, address indexed node);

    /// @notice The task ended without a verdict, and not by the node's fault. A task cancelled by its creator costs the
    /// toll (see cancelTask); so does each task of a group without a majority (reason 3, or 7 for an error report). A
    /// result in a group that was given up (6) is paid the toll.
    /// @param node the task's node, 0 = none
    /// @param reason 0 none, 1 timeout (in the queue), 2 model_download_failed, 3 incorrect_result, 4 fee_too_low, 5
    /// cancelled, 6 group_timeout, 7 error_reported, 8 creator_validation_timeout, 9 result_upload_timeout, 10 unknown
    /// @param lastStatus 0 created, 1 queued, 2 started, 3 submitted, 4 error_reported, 5 validated
    event TaskAborted(bytes32 indexed task, address indexed node, uint8 reason, uint8 lastStatus);

    /// @notice The node did not answer in time, or did not reveal its answer in time (lastStatus 3). The fee went back
    /// to the creator except the toll, the minimum fee at the task's creation, which went to the treasury.
    event TaskTimedOut(bytes32 indexed task, address indexed node, uint8 lastStatus);
}
