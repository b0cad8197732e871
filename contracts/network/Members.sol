// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IQoSOracle} from "../IQoSOracle.sol";
import {ITaskNetwork} from "../ITaskNetwork.sol";
import {Administration} from "./Administration.sol";
import {NetworkEvents} from "./NetworkEvents.sol";
import {Purse} from "./Purse.sol";

/// @title The nodes: joining, pausing, resuming, leaving
/// @notice A node is busy from the start of a task to the task's end. What it asks for while busy waits until then.
abstract contract Members is ITaskNetwork, NetworkEvents, Administration, Purse {
    /// @notice Where an address stands. Active and paused ones are members.
    enum Standing {
        Unknown,
        Active,
        Paused,
        Quit,
        Slashed,
        KickedOut
    }

    /// @notice What a busy node asked for; done where its task ends.
    enum Wish {
        None,
        Pause,
        Quit
    }

    /// @param stake wei held for it now
    /// @param task what it runs, 0 = nothing
    /// @param gpuName keccak256 of its GPU's name
    /// @param gpuVram GPU memory, GB
    /// @param major its software's version, with minor and patch
    /// @param leftAt when its last membership ended, unix seconds, 0 = never
    /// @param kickedAt when it was kicked out, unix seconds, 0 = never or readmitted
    /// @param standing where it stands
    /// @param wish what waits for the end of its task
    struct Node {
        uint256 stake;
        bytes32 task;
        bytes32 gpuName;
        uint32 gpuVram;
        uint16 major;
        uint16 minor;
        uint16 patch;
        uint40 leftAt;
        uint40 kickedAt;
        Standing standing;
        Wish wish;
    }

    /// @notice Longest name of a GPU and of a model, in bytes.
    uint256 public constant MAX_NAME = 128;

    /// @notice Most models that a node may list when it joins, or a task may require.
    uint256 public constant MAX_MODELS = 64;

    uint256 internal _memberCount;
    mapping(address => Node) internal _nodes;

    /// @notice A kicked-out node may join again, as far as the rejoin delay allows.
    event NodeReadmitted(address indexed node);

    /// @notice The address is a member already.
    error AlreadyMember(address node);

    /// @notice The address is no member.
    error NotMember(address node);

    /// @notice The stake is below the least one.
    error StakeTooLow(uint256 stake, uint256 least);

    /// @notice The address was kicked out and stays so until `until`, type(uint256).max = until readmitted.
    error KickedOut(address node, uint256 until);

    /// @notice The address left not long ago; it may join again from `from` on.
    error RejoinTooEarly(address node, uint256 from);

    /// @notice A name is empty or longer than MAX_NAME.
    error BadName(string name);

    /// @notice More than MAX_MODELS models.
    error TooManyModels(uint256 count);

    /// @notice The node is paused, or will be where its task ends.
    error AlreadyPaused(address node);

    /// @notice The node is neither paused nor about to be.
    error NotPaused(address node);

    /// @notice The node leaves where its task ends; that is not taken back.
    error QuitPending(address node);

    /// @notice The address was not kicked out.
    error NotKickedOut(address node);

    /// @notice The oracle must be told of every join: it is set before the first one.
    error MembersPresent(uint256 count);

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
        _checkReturn(msg.sender, node);
        _checkName(gpuName);
        _checkModels(models);

        (node.standing, node.kickedAt) = (Standing.Active, 0);
        node.stake = msg.value;
        node.gpuName = keccak256(bytes(gpuName));
        (node.gpuVram, node.major, node.minor, node.patch) = (gpuVram, major, minor, patch);
        _memberCount += 1;
        emit NodeJoined(msg.sender, msg.value, gpuName, gpuVram, major, minor, patch, models);
    }

    /// @notice Takes no tasks any more until resume(); where busy, from the end of the task on.
    function pause() external {
        Node storage node = _member(msg.sender);
        if (node.wish == Wish.Quit) revert QuitPending(msg.sender);
        if (node.standing == Standing.Paused || node.wish == Wish.Pause) revert AlreadyPaused(msg.sender);
        node.wish = Wish.Pause;
        if (node.task == 0) _grantWish(msg.sender);
    }

    /// @notice Takes tasks again; a pause that still waits for the end of a task is taken back without an event.
    function resume() external {
        Node storage node = _member(msg.sender);
        if (node.wish == Wish.Pause) {
            node.wish = Wish.None;
            return;
        }
        if (node.standing != Standing.Paused) revert NotPaused(msg.sender);
        node.standing = Standing.Active;
        emit NodeResumed(msg.sender);
    }

    /// @notice Leaves with its stake; where busy, at the end of the task.
    function quit() external {
        Node storage node = _member(msg.sender);
        if (node.wish == Wish.Quit) revert QuitPending(msg.sender);
        node.wish = Wish.Quit;
        if (node.task == 0) _grantWish(msg.sender);
    }

    /// @notice Adds the ether sent to the stake.
    function addStake() external payable {
        Node storage node = _member(msg.sender);
        node.stake += msg.value;
        emit NodeStakeChanged(msg.sender, node.stake);
    }

    /// @notice Says which version it runs.
    function updateVersion(uint16 major, uint16 minor, uint16 patch) external {
        Node storage node = _member(msg.sender);
        (node.major, node.minor, node.patch) = (major, minor, patch);
        emit NodeVersionUpdated(msg.sender, major, minor, patch);
    }

    /// @notice Says that it has one more model on disk.
    function addModel(string calldata model) external {
        _member(msg.sender);
        _checkName(model);
        emit ModelAdded(msg.sender, model);
    }

    // --- What the admin does ---

    /// @notice Sets the oracle, once, while the network is empty.
    function setOracle(IQoSOracle to) external onlyAdmin {
        if (address(oracle) != address(0)) revert OracleAlreadySet(address(oracle));
        if (address(to).code.length == 0) revert NoCode(address(to));
        if (_memberCount != 0) revert MembersPresent(_memberCount);
        oracle = to;
        emit OracleSet(address(to));
    }

    /// @notice Lets a kicked-out address join again before its cool-down ends.
    function readmit(address node) external onlyAdmin {
        if (_nodes[node].kickedAt == 0) revert NotKickedOut(node);
        _nodes[node].kickedAt = 0;
        emit NodeReadmitted(node);
    }

    // --- What everybody may see ---

    /// @notice All that is kept of an address.
    function nodeOf(address node) external view returns (Node memory) {
        return _nodes[node];
    }

    /// @inheritdoc ITaskNetwork
    function activeCount() external view returns (uint256) {
        return _memberCount;
    }

    /// @inheritdoc ITaskNetwork
    function isMember(address node) external view returns (bool) {
        return _isIn(_nodes[node]);
    }

    // --- Inside ---

    function _isIn(Node storage node) internal view returns (bool) {
        return node.standing == Standing.Active || node.standing == Standing.Paused;
    }

    function _member(address account) internal view returns (Node storage node) {
        node = _nodes[account];
        if (!_isIn(node)) revert NotMember(account);
    }

    /// @dev The task of this node has ended: it is free for what it asked for, or for the next one.
    function _release(address account) internal {
        _nodes[account].task = 0;
        if (_nodes[account].wish != Wish.None) _grantWish(account);
    }

    function _grantWish(address account) private {
        Node storage node = _nodes[account];
        if (node.wish == Wish.Quit) {
            uint256 stake = _leave(account, Standing.Quit);
            emit NodeQuit(account);
            _credit(account, stake);
        } else {
            node.wish = Wish.None;
            node.standing = Standing.Paused;
            emit NodePaused(account);
        }
    }

    /// @dev Takes the whole stake for a wrong result. The node's task has ended.
    function _slash(address account) internal {
        uint256 stake = _leave(account, Standing.Slashed);
        emit NodeSlashed(account, stake);
        _credit(treasury, stake);
    }

    /// @dev Ends the membership and gives the stake into the caller's hands.
    function _leave(address account, Standing standing) internal returns (uint256 stake) {
        Node storage node = _nodes[account];
        stake = node.stake;
        (node.stake, node.task, node.wish) = (0, 0, Wish.None);
        (node.standing, node.leftAt) = (standing, uint40(block.timestamp));
        _memberCount -= 1;
    }

    /// @dev A kicked-out address waits for its cool-down. Whoever left waits for the delay, however it left:
    /// leaving must not be a way to wash off a bad reliability.
    function _checkReturn(address account, Node storage node) private view {
        if (node.kickedAt != 0) {
            bool forever = _settings.kickCooldown == FOREVER;
            uint256 until = forever ? type(uint256).max : uint256(node.kickedAt) + _settings.kickCooldown;
            if (block.timestamp < until) revert KickedOut(account, until);
        }
        if (node.leftAt == 0) return;
        uint256 from = uint256(node.leftAt) + _settings.rejoinDelay;
        if (block.timestamp < from) revert RejoinTooEarly(account, from);
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
