// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IKickTarget} from "./IKickTarget.sol";
import {Administration} from "./network/Administration.sol";
import {Contests} from "./network/Contests.sol";
import {Downloads} from "./network/Downloads.sol";
import {Floors} from "./network/Floors.sol";
import {Probes} from "./network/Probes.sol";
import {TaskAnswers} from "./network/TaskAnswers.sol";
import {TaskVerdicts} from "./network/TaskVerdicts.sol";

/// @title Reference compute network
/// @notice Nodes stake ether and run tasks that creators pay for. Parts:
///   - network/NetworkEvents.sol   events about nodes and tasks
///   - network/Administration.sol  roles and limits
///   - network/OracleAccess.sol    the oracle, and the calls to it
///   - network/Purse.sol           credits and withdrawals
///   - network/Members.sol         nodes join, pause, resume, leave
///   - network/Downloads.sol       requests to download a model
///   - network/Tasks.sol           storage of tasks and groups, and the effects of a task's end
///   - network/Floors.sol          minimum fees and timeouts
///   - network/TaskOrders.sol      creating, queueing, cancelling and dropping tasks
///   - network/TaskStarts.sol      starting tasks on nodes
///   - network/Probes.sol          creating and starting in one call, by the dispatcher
///   - network/TaskAnswers.sol     answers of nodes
///   - network/TaskVerdicts.sol    judgement of answers
///   - network/Contests.sol        contested groups and slashing
/// The balance is the sum of all stakes (also of nodes that left and are not judged yet), fees of open tasks, and
/// withdrawable amounts.
contract TaskNetwork is IKickTarget, Contests, Probes, TaskAnswers, TaskVerdicts, Downloads {
    /// @param admin_ sets roles and limits
    /// @param dispatcher_ starts tasks
    /// @param treasury_ is credited with slashed stakes and tolls
    /// @param minStake minimum stake of a node, wei
    /// @param floor minimum fee and timeout of every kind of task, until changed
    constructor(address admin_, address dispatcher_, address treasury_, uint96 minStake, Floor memory floor)
        Administration(admin_, dispatcher_, treasury_, minStake)
        Floors(floor)
    {}

    /// @inheritdoc IKickTarget
    /// @dev Reverts only if the caller is not the oracle. A running task is aborted, and its fee goes back to the
    /// creator. Answers that wait for their judgement are still judged; until the last judgement, the stake is held.
    function kick(address account, bytes32 evidence) external {
        if (msg.sender != address(oracle)) revert NotOracle(msg.sender);
        if (!_isIn(_nodes[account])) return;
        _abortRunning(account);
        _kickOut(account, evidence);
        _settle(account);
    }
}
