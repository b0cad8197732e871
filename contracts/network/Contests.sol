// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title Contested groups and slashing
/// @notice Two of three nodes that collude must not take the third node's stake. So a comparison slashes no node: if it
/// finds a minority, the group is contested, and a second group of other nodes repeats the work. The result of the
/// second group decides, even against the first majority. Without a second group no node is slashed.
abstract contract Contests is Tasks {
    /// @notice The group is not contested, already has its second group, or its window is over.
    error NotContested(bytes32 group);

    /// @notice The second group has another order or size than the contested group, or existed before.
    error NotItsLike(bytes32 group, bytes32 second);

    /// @notice The second group was not compared yet; it may be compared up to and including `deadline`, unix seconds.
    error ContestOpen(bytes32 group, uint256 deadline);

    /// @notice This result is not the other group's answer.
    error WrongResult(bytes32 group);

    /// @notice Ends a contest: by the other group's answer, or, if the window is over, without slashing. The second
    /// group's answer decides about the first group, whichever side gave it; a second group's own minority is slashed
    /// if the two groups agree. An answer that no node of the group gave slashes no node.
    /// @param keys keys of exactly the group's tasks, in any order
    /// @param result hash of the result behind the other group's answer, 0 = an error report. Answers of two groups
    /// cannot be compared without it, so that no node of the second group can copy an answer of the first.
    function settleContest(bytes32 key, bytes32[] calldata keys, bytes32 result) external {
        Group storage group = _groups[key];
        if (group.standing != GroupStanding.Contested) revert NotContested(key);
        _checkMembers(key, group.size, keys);
        bytes32 right = answerOf(key, result);
        bool isProven = _isProven(key, group, result) && _isGiven(keys, right);
        if (group.isSecond && (!group.decided || right != group.verdict)) isProven = false;

        group.standing = GroupStanding.Validated;
        uint256 taken = 0;
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 member = keys[i];
            if (_tasks[member].held) taken += _free(member, isProven, right, group);
        }
        // The stakes repay the dispatcher the minimum fee of the second group's result.
        uint256 cost = group.isSecond || result == 0 ? 0 : _tasks[keys[0]].toll;
        if (cost > taken) cost = taken;
        _credit(dispatcher, cost);
        _credit(treasury, taken - cost);
    }

    /// @notice Returns the answer of the group's nodes for a result.
    /// @param result hash of the result, 0 = the task cannot be run
    function answerOf(bytes32 group, bytes32 result) public pure returns (bytes32) {
        return result == 0 ? bytes32(0) : keccak256(abi.encode(group, result));
    }

    /// @dev Links the second group before its start, which rejects the nodes of the first.
    /// @param created number of its tasks created by this call: all, so that none has started before
    function _revalidate(bytes32 key, bytes32 secondKey, uint256 created) internal {
        (Group storage group, Group storage second) = (_groups[key], _groups[secondKey]);
        if (group.standing != GroupStanding.Contested || group.peer != 0) revert NotContested(key);
        if (block.timestamp > _windowEnd(group)) revert NotContested(key);
        bool fits = second.orderHash == group.orderHash && second.size == group.size && created == group.size;
        if (!fits) revert NotItsLike(key, secondKey);
        (group.peer, second.peer, second.isSecond) = (secondKey, key, true);
        emit GroupRevalidates(key, secondKey);
    }

    function _windowEnd(Group storage group) private view returns (uint256) {
        return uint256(group.contestedAt) + _settings.revalidationWindow;
    }

    /// @dev Returns whether the other group has this result; false also if it found no result, or the window is over.
    function _isProven(bytes32 key, Group storage group, bytes32 result) private view returns (bool) {
        uint256 deadline = _windowEnd(group);
        if (block.timestamp > deadline) return false;
        Group storage peer = _groups[group.peer];
        bool isCompared = peer.standing == GroupStanding.Contested || peer.standing == GroupStanding.Validated;
        if (!isCompared) revert ContestOpen(key, deadline);
        if (peer.decided && peer.verdict != answerOf(group.peer, result)) revert WrongResult(group.peer);
        return peer.decided;
    }

    function _isGiven(bytes32[] calldata keys, bytes32 answer) private view returns (bool) {
        for (uint256 i = 0; i < keys.length; ++i) {
            Task storage task = _tasks[keys[i]];
            if (task.held && task.answer == answer) return true;
        }
        return false;
    }

    /// @dev Releases a held answer of a contest.
    /// @return taken the stake if the node is slashed, wei
    function _free(bytes32 key, bool isProven, bytes32 right, Group storage group) private returns (uint256 taken) {
        Task storage task = _tasks[key];
        _release(task);
        if (isProven && task.answer != right) return _slash(task.node);
        if (!group.decided || task.answer != group.verdict) emit NodeCleared(task.node, key);
        _settle(task.node);
    }
}
