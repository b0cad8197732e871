// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IKickTarget} from "./IKickTarget.sol";
import {Administration} from "./network/Administration.sol";
import {TaskVerdicts} from "./network/TaskVerdicts.sol";
import {TaskWork} from "./network/TaskWork.sol";

/// @title A reference compute network
/// @notice Nodes stake ether and run tasks that others pay for. Where to read on:
///   - network/NetworkEvents.sol   all that it says about nodes and tasks
///   - network/Administration.sol  roles and limits
///   - network/OracleAccess.sol    which oracle watches, and what it is asked
///   - network/Purse.sol           money is credited, and fetched by its owner
///   - network/Members.sol         nodes join, pause, resume, leave
///   - network/Tasks.sol           the book of tasks and groups, and what the end of one does
///   - network/TaskWork.sol        a task from its creation to the node's answer
///   - network/TaskVerdicts.sol    and from there to its end
/// Its balance is the sum of all stakes, of the fees of open tasks, and of what waits to be withdrawn.
contract TaskNetwork is IKickTarget, TaskWork, TaskVerdicts {
    /// @param admin_ sets roles and limits
    /// @param dispatcher_ starts tasks
    /// @param treasury_ is credited with slashed stakes
    /// @param minStake least stake of a node, wei
    constructor(address admin_, address dispatcher_, address treasury_, uint128 minStake)
        Administration(admin_, dispatcher_, treasury_, minStake)
    {}

    /// @inheritdoc IKickTarget
    /// @dev Never refused: a task that runs is aborted, an answer that waits for its judgement too. The fee goes back to
    /// the creator even where a result is in: nobody has judged it, and the stake that answered for it leaves now.
    function kick(address account, bytes32 evidence) external {
        if (msg.sender != address(oracle)) revert NotOracle(msg.sender);
        if (!_isIn(_nodes[account])) return;
        bytes32 task = _nodes[account].task;
        if (task != 0) _abort(task, Reason.Cancelled, _tasks[task].creator);
        _kickOut(account, evidence);
    }
}
