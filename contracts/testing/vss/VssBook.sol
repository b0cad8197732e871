// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Storage, events and access checks of VssTask
abstract contract VssBook {
    enum TaskType {
        SD,
        LLM,
        SD_FT
    }

    enum TaskStatus {
        Queued,
        Started,
        ParametersUploaded,
        ErrorReported,
        ScoreReady,
        Validated,
        GroupValidated,
        EndInvalidated,
        EndSuccess,
        EndAborted,
        EndGroupRefund,
        EndGroupSuccess
    }

    enum TaskAbortReason {
        None,
        Timeout,
        ModelDownloadFailed,
        IncorrectResult,
        TaskFeeTooLow
    }

    enum TaskError {
        None,
        ParametersValidationFailed
    }

    /// @param sequence from 1; 0: there is no such task
    struct TaskInfo {
        TaskType taskType;
        address creator;
        bytes32 nonce;
        uint256 sequence;
        TaskStatus status;
        address selectedNode;
        bytes score;
        uint256 taskFee;
        uint256 taskSize;
        string[] modelIDs;
        uint256 minimumVRAM;
        string requiredGPU;
        uint256 requiredGPUVRAM;
        uint256[3] taskVersion;
        TaskAbortReason abortReason;
        TaskError fault;
        uint256 startTimestamp;
    }

    /// @notice Maximum tasks that wait for a node.
    uint256 private constant QUEUE_LIMIT = 50;

    address public owner;
    address private _relay;
    uint256 private _timeout = 3 minutes;

    bytes32[] internal _queue;
    mapping(bytes32 => TaskInfo) internal _tasks;
    mapping(address => bytes32) internal _nodeTasks;

    event TaskQueued(bytes32 taskIDCommitment);
    event TaskStarted(bytes32 taskIDCommitment, address selectedNode);
    event TaskParametersUploaded(bytes32 taskIDCommitment, address selectedNode);
    event TaskErrorReported(bytes32 taskIDCommitment, address selectedNode, TaskError fault);
    event TaskScoreReady(bytes32 taskIDCommitment, address selectedNode, bytes taskScore);
    event TaskValidated(bytes32 taskIDCommitment);
    event TaskEndSuccess(bytes32 taskIDCommitment);
    event TaskEndInvalidated(bytes32 taskIDCommitment);
    event TaskEndGroupSuccess(bytes32 taskIDCommitment);
    event TaskEndGroupRefund(bytes32 taskIDCommitment);
    event TaskEndAborted(
        bytes32 taskIDCommitment, address abortIssuer, TaskStatus lastStatus, TaskAbortReason abortReason
    );
    event DownloadModel(address nodeAddress, string modelID, TaskType taskType);

    error OwnableUnauthorizedAccount(address account);

    modifier onlyOwner() {
        if (msg.sender != owner) revert OwnableUnauthorizedAccount(msg.sender);
        _;
    }

    constructor() {
        owner = msg.sender;
    }

    function setRelayAddress(address addr) external onlyOwner {
        _relay = addr;
    }

    function updateTimeout(uint256 t) external onlyOwner {
        _timeout = t;
    }

    function getNodeTask(address nodeAddress) external view returns (bytes32) {
        return _nodeTasks[nodeAddress];
    }

    // --- The queue ---

    function _enqueue(bytes32 id) internal {
        emit TaskQueued(id);
        require(_queue.length < QUEUE_LIMIT, "Task queue is full");
        _queue.push(id);
    }

    /// @dev Keeps the order of the others.
    function _dequeue(bytes32 id) internal {
        uint256 place;
        while (_queue[place] != id) ++place;
        for (; place + 1 < _queue.length; ++place) {
            _queue[place] = _queue[place + 1];
        }
        _queue.pop();
    }

    // --- Access checks ---

    /// @dev A started task that is not its node's current task has ended.
    function _known(bytes32 id) internal view returns (TaskInfo storage task) {
        task = _tasks[id];
        require(task.sequence != 0, "Task not found");
        require(task.selectedNode == address(0) || _nodeTasks[task.selectedNode] == id, "Wrong task");
    }

    function _ofNode(bytes32 id) internal view returns (TaskInfo storage task) {
        task = _known(id);
        require(msg.sender == task.selectedNode, "Invalid caller");
        _requireState(task.status == TaskStatus.ParametersUploaded);
    }

    function _ofRelay(bytes32 id, TaskStatus one, TaskStatus other) internal view returns (TaskInfo storage task) {
        task = _known(id);
        require(msg.sender == _relay, "Invalid caller");
        _requireState(task.status == one || task.status == other);
    }

    /// @dev In a group a task may be aborted, if it never started.
    function _ofCreator(bytes32 id, bool inGroup) internal view returns (TaskInfo storage task) {
        task = _known(id);
        require(msg.sender == task.creator, "Invalid caller");
        TaskStatus status = task.status;
        bool answered = status == TaskStatus.ScoreReady || status == TaskStatus.ErrorReported;
        _requireState(answered || (inGroup && status == TaskStatus.EndAborted));
    }

    function _abortable(bytes32 id) internal view returns (TaskInfo storage task) {
        task = _known(id);
        require(msg.sender == task.creator || msg.sender == task.selectedNode, "Invalid caller");
        require(
            task.startTimestamp == 0 || block.timestamp > task.startTimestamp + _timeout, "Timeout not reached"
        );
    }

    function _isOfCreator(bytes calldata publicKey) internal view {
        require(publicKey.length == 64, "Invalid public key length");
        require(address(uint160(uint256(keccak256(publicKey)))) == msg.sender, "Not task creator");
    }

    function _requireState(bool holds) private pure {
        require(holds, "Illegal previous task state");
    }
}
