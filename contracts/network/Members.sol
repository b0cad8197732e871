// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {NetworkEvents} from "./NetworkEvents.sol";
import {OracleAccess} from "./OracleAccess.sol";
import {Purse} from "./Purse.sol";

/// @title The nodes: joining, pausing, resuming, leaving
/// @notice A node is busy from the start of a task to its answer; from then on it may take the next one. Its stake
/// stays here, also when it is no member any more, until the last of its answers is judged: nobody escapes a
/// judgement by leaving.
abstract contract Members is NetworkEvents, OracleAccess, Purse {
    /// @notice Where an address stands. Active and paused ones are members.
    enum Standing {
        Unknown,
        Active,
        Paused,
        Quit,
        Slashed,
        KickedOut
    }

    /// @param stake wei held for it now
    /// @param task what it runs, 0 = nothing
    /// @param gpuName keccak256 of its GPU's name
    /// @param gpuVram GPU memory, GB
    /// @param major its software's version, with minor and patch
    /// @param until when it may join again, unix seconds, by the settings of when it left; type(uint40).max = when readmitted
    /// @param open how many of its answers wait for their judgement
    /// @param lessTime by how many seconds its own timeout is below type(uint32).max, which is none
    /// @param standing where it stands
    /// @param quits it asked to leave, and does so when it has no task and no open answer
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

    /// @notice Longest name of a GPU and of a model, in bytes.
    uint256 public constant MAX_NAME = 128;

    /// @notice Most models that a node may list when it joins, or a task may require.
    uint256 public constant MAX_MODELS = 64;

    /// @notice How many nodes are members now; paused ones count.
    uint256 public activeCount;

    /// @dev The widths of Node's fields, as _returnFields takes them.
    bytes32 private constant NODE_FIELDS = bytes32(bytes12(hex"20a0a0840202020504040101"));

    mapping(address => Node) internal _nodes;

    /// @notice A kicked-out node may join again.
    event NodeReadmitted(address indexed node);

    /// @notice The address is a member already.
    error AlreadyMember(address node);

    /// @notice The address is no member.
    error NotMember(address node);

    /// @notice The stake is below the least one; of stake that is added the least is 1.
    error StakeTooLow(uint256 stake, uint256 least);

    /// @notice The address was kicked out and may join again from `until` on, type(uint40).max = when readmitted.
    error KickedOut(address node, uint40 until);

    /// @notice The address left not long ago; it may join again from `until` on.
    error RejoinTooEarly(address node, uint40 until);

    /// @notice A name is empty or longer than MAX_NAME.
    error BadName(string name);

    /// @notice More than MAX_MODELS models.
    error TooManyModels(uint256 count);

    /// @notice The node is paused.
    error AlreadyPaused(address node);

    /// @notice The node is not paused.
    error NotPaused(address node);

    /// @notice The node leaves when all that it did is judged; that is not taken back.
    error QuitPending(address node);

    /// @notice The stake of the last membership is still here: so many answers of that time are not judged.
    error AnswersOpen(address node, uint32 open);

    /// @notice The address was not kicked out.
    error NotKickedOut(address node);

    // --- What a node does ---

    /// @notice Joins with the ether sent as stake.
    /// @param gpuName 1 to MAX_NAME bytes
    /// @param gpuVram GB
    /// @param models those on its disk, at most MAX_MODELS
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

    /// @notice Takes no more tasks until resume(); the one that it runs it may still answer.
    function pause() external {
        Node storage node = _member(msg.sender);
        if (node.quits) revert QuitPending(msg.sender);
        if (node.standing == Standing.Paused) revert AlreadyPaused(msg.sender);
        node.standing = Standing.Paused;
        emit NodePaused(msg.sender);
    }

    /// @notice Takes tasks again.
    function resume() external {
        Node storage node = _member(msg.sender);
        if (node.standing != Standing.Paused) revert NotPaused(msg.sender);
        node.standing = Standing.Active;
        emit NodeResumed(msg.sender);
    }

    /// @notice Leaves with its stake: at once, or when its task has ended and the last of its answers is judged. It gets
    /// no more tasks. Who leaves while its kickout is proposed is kicked out by that: nobody escapes in the hours of
    /// the veto.
    function quit() external {
        Node storage node = _member(msg.sender);
        if (node.quits) revert QuitPending(msg.sender);
        node.quits = true;
        _settle(msg.sender);
    }

    /// @notice Adds the ether sent to the stake; an event for nothing is refused.
    function addStake() external payable {
        Node storage node = _member(msg.sender);
        if (msg.value == 0) revert StakeTooLow(0, 1);
        node.stake += msg.value;
        emit NodeStakeChanged(msg.sender, node.stake);
    }

    /// @notice Says which version it runs.
    function updateVersion(uint16 major, uint16 minor, uint16 patch) external {
        Node storage node = _member(msg.sender);
        (node.major, node.minor, node.patch) = (major, minor, patch);
        emit NodeVersionUpdated(msg.sender, major, minor, patch);
    }

    /// @notice Promises to answer within so many seconds, whatever longer time a task gives; of a task whose floor gives
    /// more than that the floor counts. While it is paused: nobody promises one thing to the oracle, and another for the
    /// task that is coming.
    function setTimeout(uint32 timeout) external {
        Node storage node = _member(msg.sender);
        if (node.standing != Standing.Paused) revert NotPaused(msg.sender);
        node.lessTime = type(uint32).max - timeout;
        emit NodeTimeoutSet(msg.sender, timeout);
    }

    /// @notice Says that it has one more model on disk.
    function addModel(string calldata model) external {
        _member(msg.sender);
        _checkName(model);
        emit ModelAdded(msg.sender, model);
    }

    // --- What the admin does ---

    /// @notice Lets a kicked-out address join again before its cool-down ends.
    function readmit(address account) external onlyAdmin {
        Node storage node = _nodes[account];
        if (node.standing != Standing.KickedOut || node.until == 0) revert NotKickedOut(account);
        node.until = 0;
        emit NodeReadmitted(account);
    }

    // --- What everybody may see ---

    /// @notice All that is kept of an address.
    function nodeOf(address node) external view returns (Node calldata found) {
        Node storage kept = _nodes[node];
        uint256 slot;
        // It is never read: _returnFields ends the call.
        assembly ("memory-safe") {
            slot := kept.slot
            found := 0
        }
        _returnFields(slot, NODE_FIELDS);
    }

    // --- Inside ---

    function _isIn(Node storage node) internal view returns (bool) {
        return node.standing == Standing.Active || node.standing == Standing.Paused;
    }

    function _member(address account) internal view returns (Node storage node) {
        node = _nodes[account];
        if (!_isIn(node)) revert NotMember(account);
    }

    /// @dev Where nothing of the node's is open any more: lets it go if it asked for that, and who has gone gets its stake.
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

    /// @dev Ends the membership for the oracle's sake. The node runs no task any more.
    function _kickOut(address account, bytes32 evidence) internal {
        _leave(account, Standing.KickedOut);
        emit NodeKickedOut(account, _nodes[account].stake, evidence);
    }

    /// @dev Ends the membership; the stake stays. Whoever leaves waits for the delay, however it leaves: leaving must not
    /// be a way to wash off a bad reliability. A kicked-out one waits for its cool-down too.
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
