// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IKickTarget} from "./IKickTarget.sol";
import {ITaskNetwork} from "./ITaskNetwork.sol";
import {Administration} from "./network/Administration.sol";
import {TaskVerdicts} from "./network/TaskVerdicts.sol";
import {TaskWork} from "./network/TaskWork.sol";

/// @title A reference compute network
/// @notice Nodes stake ether and run tasks that others pay for. Where to read on:
///   - network/NetworkEvents.sol   all that it says about nodes and tasks
///   - network/Administration.sol  roles and limits
///   - network/Purse.sol           money is credited, and fetched by its owner
///   - network/Members.sol         nodes join, pause, resume, leave
///   - network/Tasks.sol           the book of tasks and groups, and what the end of one does
///   - network/TaskWork.sol        a task from its creation to the node's answer
///   - network/TaskVerdicts.sol    and from there to its end
/// Its balance is the sum of all stakes, of the fees of open tasks, and of what waits to be withdrawn.
contract TaskNetwork is TaskWork, TaskVerdicts, IKickTarget {
    /// @notice A kickout without evidence.
    error NoEvidence();

    /// @param admin_ sets roles and limits
    /// @param dispatcher_ starts tasks
    /// @param treasury_ is credited with slashed stakes
    /// @param minStake least stake of a node, wei
    constructor(address admin_, address dispatcher_, address treasury_, uint128 minStake)
        Administration(admin_, dispatcher_, treasury_, minStake)
    {}

    /// @inheritdoc IKickTarget
    function kick(address account, bytes32 evidence) external {
        if (_isIn(_nodes[account])) kickOut(account, evidence);
    }

    /// @inheritdoc ITaskNetwork
    /// @dev The task's fee goes back to the creator even where a result is in: nobody has judged it, and the stake
    /// that answered for it leaves now.
    function kickOut(address account, bytes32 evidence) public {
        if (msg.sender != address(oracle)) revert NotOracle(msg.sender);
        if (evidence == 0) revert NoEvidence();
        Node storage node = _member(account);
        bytes32 task = node.task;
        if (task != 0) _abort(task, Reason.Cancelled, _tasks[task].creator);
        uint256 stake = _leave(account, Standing.KickedOut);
        node.kickedAt = uint40(block.timestamp);
        emit NodeKickedOut(account, stake, evidence);
        _credit(account, stake);
    }
}
