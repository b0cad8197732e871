// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {NetworkEvents} from "./NetworkEvents.sol";
import {OracleAccess} from "./OracleAccess.sol";
import {Purse} from "./Purse.sol";

/// @title Node membership: joining, pausing, resuming, leaving
/// @notice A node is busy from the start of a task to its answer; then it may get the next task. The stake of a node
/// that leaves stays here until the last of its answers is judged, so leaving does not avoid a judgement.
abstract contract Members is NetworkEvents, OracleAccess, Purse {
    /// @notice State of an address. Active and paused addresses are members.
    enum Standing {
        Unknown,
        Active,
        Paused,
        Quit,
        Slashed,
        KickedOut
    }

    /// @param stake the node's stake, wei
    /// @param task key of the node's running task, 0 = none
    /// @param gpuName keccak256 of the name of the node's GPU
    /// @param gpuVram GPU memory, GB
    /// @param major version of the node's software, with minor and patch
    /// @param until time from which the node may join again, unix seconds, fixed when it left; type(uint40).max = when
    /// readmitted
    /// @param open number of the node's answers that wait for their judgement
    /// @param lessTime type(uint32).max minus the node's own timeout in seconds; 0 = no timeout of its own
    /// @param standing the node's state
    /// @param quits whether the node requested to leave; it leaves when it has no task and no open answer
    struct Node {
        uint256 stake;
        bytes32 task;
        bytes32 gpuName;
        uint32 gpuVram;
        uint16 major;
        uint16 minor;
        uint16 patch;
        uint40 until;
        uint32 open;
        uint32 lessTime;
        Standing standing;
        bool quits;
    }

    /// @dev Maximum length of a GPU's and of a model's name, in bytes.
    uint256 internal constant MAX_NAME = 128;

    /// @dev Maximum models that a node may list when it joins, or a task may require.
    uint256 internal constant MAX_MODELS = 64;

    /// @notice Number of members, including paused nodes.
    uint256 public activeCount;

    /// @dev The widths of Node's fields, for _returnFields.
    bytes32 private immutable NODE_FIELDS = bytes32(bytes12(hex"20a0a0840202020504040101"));

    mapping(address => Node) internal _nodes;

    /// @notice A kicked-out node was readmitted: it may join again.
    event NodeReadmitted(address indexed node);

    /// @notice The address is already a member.
    error AlreadyMember(address node);

    /// @notice The address is not a member.
    error NotMember(address node);

    /// @notice The stake is below the minimum; for added stake the minimum is 1.
    error StakeTooLow(uint256 stake, uint256 least);

    /// @notice The address was kicked out and may join again at `until`, unix seconds; type(uint40).max = when it is
    /// readmitted.
    error KickedOut(address node, uint40 until);

    /// @notice The address left recently; it may join again at `until`, unix seconds.
    error RejoinTooEarly(address node, uint40 until);

    /// @notice A name is empty or longer than MAX_NAME.
    error BadName(string name);

    /// @notice More than MAX_MODELS models are listed.
    error TooManyModels(uint256 count);

    /// @notice The node is paused.
    error AlreadyPaused(address node);

    /// @notice The node is not paused.
    error NotPaused(address node);

    /// @notice The node has requested to leave, which cannot be undone; it leaves when all its answers are judged.
    error QuitPending(address node);

    /// @notice The stake of the last membership is still held, because `open` answers are not judged.
    error AnswersOpen(address node, uint32 open);

    /// @notice The address was not kicked out, or is already readmitted.
    error NotKickedOut(address node);

    // --- Node calls ---

    /// @notice Joins with the ether sent as stake.
    /// @param gpuName 1 to MAX_NAME bytes
    /// @param gpuVram GB
    /// @param models names of the models on the node's disk, at most MAX_MODELS
    function join(
        string calldata gpuName,
        uint32 gpuVram,
        uint16 major,
        uint16 minor,
        uint16 patch,
        string[] calldata models
    ) external payable {
        Node storage node = _nodes[msg.sender];
        if (_isIn(node)) revert AlreadyMember(msg.sender);
        if (msg.value < _settings.minStake) revert StakeTooLow(msg.value, _settings.minStake);
        _checkReturn(node);
        _checkName(gpuName);
        _checkModels(models);

        node.standing = Standing.Active;
        node.stake = msg.value;
        node.gpuName = keccak256(bytes(gpuName));
        (node.gpuVram, node.major, node.minor, node.patch) = (gpuVram, major, minor, patch);
        activeCount += 1;
        emit NodeJoined(msg.sender, msg.value, gpuName, gpuVram, major, minor, patch, models);
    }

    /// @notice Pauses the sender: it gets no tasks until resume(); a running task may still be answered.
    function pause() external {
        Node storage node = _member(msg.sender);
        if (node.quits) revert QuitPending(msg.sender);
        if (node.standing == Standing.Paused) revert AlreadyPaused(msg.sender);
        node.standing = Standing.Paused;
        emit NodePaused(msg.sender);
    }

    /// @notice Resumes the sender, which gets tasks again.
    function resume() external {
        Node storage node = _member(msg.sender);
        if (node.standing != Standing.Paused) revert NotPaused(msg.sender);
        node.standing = Standing.Active;
        emit NodeResumed(msg.sender);
    }

    /// @notice Leaves, and gets the stake back: at once, or when the task has ended and the last answer is judged. The
    /// node gets no more tasks. A node that leaves while it is accused is kicked out, so that it cannot escape during the
    /// veto delay.
    function quit() external {
        Node storage node = _member(msg.sender);
        if (node.quits) revert QuitPending(msg.sender);
        node.quits = true;
        _settle(msg.sender);
    }

    /// @notice Adds the ether sent to the stake; 0 is rejected, so that no event is emitted without a change.
    function addStake() external payable {
        Node storage node = _member(msg.sender);
        if (msg.value == 0) revert StakeTooLow(0, 1);
        node.stake += msg.value;
        emit NodeStakeChanged(msg.sender, node.stake);
    }

    /// @notice Sets the version that the sender runs.
    function updateVersion(uint16 major, uint16 minor, uint16 patch) external {
        Node storage node = _member(msg.sender);
        (node.major, node.minor, node.patch) = (major, minor, patch);
        emit NodeVersionUpdated(msg.sender, major, minor, patch);
    }

    /// @notice Sets the node's own timeout: it promises to answer within `timeout` seconds, even if a task gives more
    /// time. A task's minimum timeout takes precedence. Only a paused node may call it, so that the timeout cannot change
    /// between a draw and the start of its task.
    function setTimeout(uint32 timeout) external {
        Node storage node = _member(msg.sender);
        if (node.standing != Standing.Paused) revert NotPaused(msg.sender);
        node.lessTime = type(uint32).max - timeout;
        emit NodeTimeoutSet(msg.sender, timeout);
    }

    /// @notice Reports another model on the sender's disk.
    function addModel(string calldata model) external {
        _member(msg.sender);
        _checkName(model);
        emit ModelAdded(msg.sender, model);
    }

    // --- Admin calls ---

    /// @notice Lets a kicked-out address join again before its cool-down ends.
    function readmit(address account) external onlyAdmin {
        Node storage node = _nodes[account];
        if (node.standing != Standing.KickedOut || node.until == 0) revert NotKickedOut(account);
        node.until = 0;
        emit NodeReadmitted(account);
    }

    // --- Views ---

    /// @notice Returns the record of an address.
    function nodeOf(address node) external view returns (Node calldata found) {
        Node storage kept = _nodes[node];
        uint256 slot;
        // Never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, NODE_FIELDS);
    }

    // --- Internal functions ---

    function _isIn(Node storage node) internal view returns (bool) {
        return node.standing == Standing.Active || node.standing == Standing.Paused;
    }

    function _member(address account) internal view returns (Node storage node) {
        node = _nodes[account];
        if (!_isIn(node)) revert NotMember(account);
    }

    /// @dev If the node has no running task and no open answer: ends the membership if the node requested it, and
    /// credits the stake of an address that is not a member.
    function _settle(address account) internal {
        Node storage node = _nodes[account];
        if (node.task != 0 || node.open != 0) return;
        if (_isIn(node)) {
            if (!node.quits) return;
            if (_isKickPending(account)) _kickOut(account, 0);
            else _quit(account);
        }
        uint256 stake = node.stake;
        if (stake == 0) return;
        node.stake = 0;
        emit StakeReturned(account, stake);
        _credit(account, stake);
    }

    function _quit(address account) private {
        _leave(account, Standing.Quit);
        emit NodeQuit(account);
    }

    /// @dev Ends the membership for the oracle. The node has no running task.
    function _kickOut(address account, bytes32 evidence) internal {
        _leave(account, Standing.KickedOut);
        emit NodeKickedOut(account, _nodes[account].stake, evidence);
    }

    /// @dev Ends the membership; the stake stays. Every node that leaves, in any way, must wait before it joins again,
    /// because leaving must not reset a bad reliability. A kicked-out node also waits for its cool-down.
    function _leave(address account, Standing standing) internal {
        Node storage node = _nodes[account];
        (node.standing, node.quits) = (standing, false);
        activeCount -= 1;
        uint32 wait = _settings.rejoinDelay;
        uint32 coolDown = standing == Standing.KickedOut ? _settings.kickCooldown : 0;
        if (coolDown > wait) wait = coolDown;
        node.until = coolDown == FOREVER ? type(uint40).max : uint40(block.timestamp) + wait;
    }

    function _checkReturn(Node storage node) private view {
        if (node.open != 0) revert AnswersOpen(msg.sender, node.open);
        if (block.timestamp >= node.until) return;
        if (node.standing == Standing.KickedOut) revert KickedOut(msg.sender, node.until);
        revert RejoinTooEarly(msg.sender, node.until);
    }

    function _checkName(string calldata name) internal pure {
        if (bytes(name).length == 0 || bytes(name).length > MAX_NAME) revert BadName(name);
    }

    function _checkModels(string[] calldata models) internal pure {
        if (models.length > MAX_MODELS) revert TooManyModels(models.length);
        for (uint256 i = 0; i < models.length; ++i) {
            _checkName(models[i]);
        }
    }
}
