// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {Tasks} from "./Tasks.sol";

/// @title Who is slashed
/// @notice Two of three nodes that lie alike must not take the third one's stake. So a comparison slashes nobody: where
/// it finds a minority, the group is contested, and a second group of other nodes does the work over again. What it
/// says decides, also against the first majority. Without a second group nobody is slashed: the safe side.
abstract contract Contests is Tasks {
    /// @notice The group is not contested, has its second group already, or its window is over.
    error NotContested(bytes32 group);

    /// @notice The second group asks for something else than the contested one, has another size, or was there before.
    error NotItsLike(bytes32 group, bytes32 second);

    /// @notice The second group has not spoken, and may do so up to and with `deadline`.
    error ContestOpen(bytes32 group, uint256 deadline);

    /// @notice This result is not what the other group answered.
    error WrongResult(bytes32 group);

    /// @notice Ends a contest: by what the other group answered, or, when the window is over, without slashing anybody.
    /// A first group is held to the second one's answer, whichever side gave it; a second group's own minority is
    /// slashed where the two groups agree. An answer that nobody in the group gave slashes nobody.
    /// @param keys the names of exactly the group's tasks, in any order
    /// @param result hash of the result that the other group's answer stands for, 0 = it could not be run. The answers
    /// of two groups cannot be compared without it, so that nobody copies from the first what he says in the second.
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
            if (_tasks[keys[i]].held) taken += _free(keys[i], isProven, right, group);
        }
        // The dispatcher has paid one node for the second group's result: the floor of that comes out of the stakes.
        uint256 cost = group.isSecond || result == 0 ? 0 : _tasks[keys[0]].toll;
        if (cost > taken) cost = taken;
        _credit(dispatcher, cost);
        _credit(treasury, taken - cost);
    }

    /// @notice What a node of the group answers.
    /// @param result hash of the result, 0 = the task cannot be run
    function answerOf(bytes32 group, bytes32 result) public pure returns (bytes32) {
        return result == 0 ? bytes32(0) : keccak256(abi.encode(group, result));
    }

    /// @dev Before the second group is started: the start refuses the nodes of the first.
    /// @param created how many of its tasks this call has created: all, so that none has begun before
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

    /// @dev Whether the other group has found this result; false also when it found none, or the window is over.
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
            if (_tasks[keys[i]].held && _tasks[keys[i]].answer == answer) return true;
        }
        return false;
    }

    /// @dev One answer of a contest is done with.
    /// @return taken the stake, where the node is slashed, wei
    function _free(bytes32 key, bool isProven, bytes32 right, Group storage group) private returns (uint256 taken) {
        Task storage task = _tasks[key];
        _release(task);
        if (isProven && task.answer != right) return _slash(task.node);
        if (!group.decided || task.answer != group.verdict) emit NodeCleared(task.node, key);
        _settle(task.node);
    }
}
