// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @title What the network says about nodes and tasks
/// @notice The events alone tell everything: nobody needs calldata or calls to follow the network. In one
/// transaction, the event that ends a task comes before the membership event that it causes, and GroupValidated
/// before all else that the validation does.
interface NetworkEvents {
    // --- Nodes ---

    /// @notice A node joins, or joins again. Stake in wei, memory in whole GB, models as they are on its disk.
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

    /// @notice The node runs another version of the software now.
    event NodeVersionUpdated(address indexed node, uint16 major, uint16 minor, uint16 patch);

    /// @notice The node's stake is now `stake` wei.
    event NodeStakeChanged(address indexed node, uint256 stake);

    /// @notice The node answers any task within `timeout` seconds of its start, or within the task's own time if less.
    event NodeTimeoutSet(address indexed node, uint32 timeout);

    /// @notice The node has one more model on disk.
    event ModelAdded(address indexed node, string model);

    /// @notice The node is asked to download the model, which few available nodes have. It answers by addModel; nobody
    /// asks it for the same model again until `until`, unix seconds.
    event DownloadRequested(address indexed node, string model, uint256 until);

    /// @notice The node takes no tasks until it resumes; one that it runs it may still answer.
    event NodePaused(address indexed node);

    /// @notice The node takes tasks again.
    event NodeResumed(address indexed node);

    /// @notice The node left by its own will. It is said when all that the node did is judged.
    event NodeQuit(address indexed node);

    /// @notice The node's answer is not the verdict of its group, or was not revealed in time, or the group, of which
    /// another was not, has none: its stake waits for what a second group says, or for the end of the window.
    event NodeContested(address indexed node, bytes32 indexed task);

    /// @notice The contest is over, and nothing was proven against the node: its stake is its own again.
    event NodeCleared(address indexed node, bytes32 indexed task);

    /// @notice The node gave a wrong result, as two groups say: it loses `amount` wei, its whole stake, and is no member any more.
    event NodeSlashed(address indexed node, uint256 amount);

    /// @notice The oracle ended the membership. `stake` wei, all of it, stay until no answer of the node's waits for its
    /// judgement. `evidence` is the hash of the public file that tells why; 0: the node left of itself while its
    /// kickout was proposed.
    event NodeKickedOut(address indexed node, uint256 stake, bytes32 evidence);

    /// @notice The stake of a node that is no member any more, `amount` wei, was credited to it.
    event StakeReturned(address indexed node, uint256 amount);

    /// @notice A node that is no member any more had given a wrong result: it loses `amount` wei, its whole stake.
    event StakeForfeited(address indexed node, uint256 amount);

    // --- Tasks ---

    /// @notice A task was created and paid for.
    /// @param task keccak256(abi.encode(creator, the id that the creator chose))
    /// @param group keccak256(abi.encode(creator, the group id that the creator chose)), 0 = none
    /// @param fee wei
    /// @param kind 0 stable diffusion, 1 language model, 2 fine tuning
    /// @param minVram least GPU memory in GB, where no GPU is required by name
    /// @param requiredGpu exact name of the GPU, empty = any
    /// @param requiredGpuVram its exact memory in GB, where a name is given
    /// @param major the node's major version must be this, (minor, patch) at least these
    /// @param size units of work, at least 1
    /// @param timeout seconds that a node has from its start
    /// @param groupSize how many tasks the group has in the end, 0 = no group
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
    /// @param nodes who runs them, in the same order
    event GroupStarted(bytes32 indexed group, bytes32[] tasks, address[] nodes);

    /// @notice The task was given to a node; its clock starts.
    event TaskStarted(bytes32 indexed task, address indexed node);

    /// @notice The node's result of a task in no group is in; its clock stops. The node is free.
    event TaskSubmitted(bytes32 indexed task, address indexed node, bytes32 resultHash);

    /// @notice The node says that a task in no group cannot be run; its clock stops. The node is free.
    event TaskErrorReported(bytes32 indexed task, address indexed node);

    /// @notice The node has answered a task of a group and hides how; its clock stops, its rank is taken. It is free.
    /// @param commitment keccak256(abi.encode(task, node, answer, salt)); answer as in TaskRevealed, 0 = cannot be run
    event TaskCommitted(bytes32 indexed task, address indexed node, bytes32 commitment);

    /// @notice The node shows the answer that it committed to.
    /// @param answer keccak256(abi.encode(group, hash of the result)): who sees it learns nothing for another group
    event TaskRevealed(bytes32 indexed task, address indexed node, bytes32 answer);

    /// @notice The node shows that what it committed to is an error report: the task cannot be run.
    event TaskErrorRevealed(bytes32 indexed task, address indexed node);

    /// @notice The node, which timed out because it did not reveal its answer in time, shows it for its contest.
    event AnswerShownLate(bytes32 indexed task, address indexed node, bytes32 answer);

    /// @notice The result was accepted, alone or in its group.
    event TaskValidated(bytes32 indexed task);

    /// @notice The creator had the group compared. `tasks` are all its members in the creator's order. Said for
    /// every comparison, whatever comes out of it: the group is closed, and nobody's rank changes any more.
    event GroupValidated(bytes32 indexed group, bytes32[] tasks);

    /// @notice A second group, `second`, does the work of the contested `group` over again: the same order, other nodes.
    event GroupRevalidates(bytes32 indexed group, bytes32 indexed second);

    /// @notice The group pays by points: of the fee that the fastest would have got, `amount` wei went to this node. Said
    /// for each who is right, before their tasks end.
    event FeeShared(bytes32 indexed task, address indexed node, uint256 amount);

    /// @notice Ended well; the fee went to the node, unless FeeShared said who got it.
    event TaskSucceeded(bytes32 indexed task, address indexed node);

    /// @notice Ended well, as a second opinion: the result matched, the fee went back to the creator.
    event TaskRefunded(bytes32 indexed task, address indexed node);

    /// @notice The answer differs from the majority's; the fee went back to the creator, NodeContested follows.
    event TaskInvalidated(bytes32 indexed task, address indexed node);

    /// @notice Ended without a verdict, and not by the node's fault. A cancelled task costs its creator the toll, as do those of
    /// a group that found no majority (3, or 7 beside it); a result in a group that was given up (6) is paid the toll.
    /// @param node who ran it, 0 = nobody
    /// @param reason 0 none, 1 timeout (in the queue), 2 model_download_failed, 3 incorrect_result, 4 fee_too_low,
    /// 5 cancelled, 6 group_timeout, 7 error_reported, 8 creator_validation_timeout, 9 result_upload_timeout, 10 unknown
    /// @param lastStatus 0 created, 1 queued, 2 started, 3 submitted, 4 error_reported, 5 validated
    event TaskAborted(bytes32 indexed task, address indexed node, uint8 reason, uint8 lastStatus);

    /// @notice The node did not answer in time, or did not reveal its answer in time (lastStatus 3). The fee went back to
    /// the creator but for the toll, the least fee of the day of its creation, which went to the treasury.
    event TaskTimedOut(bytes32 indexed task, address indexed node, uint8 lastStatus);
}
