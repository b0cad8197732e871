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

/// @title A reference compute network
/// @notice Nodes stake ether and run tasks that others pay for. Where to read on:
///   - network/NetworkEvents.sol   all that it says about nodes and tasks
///   - network/Administration.sol  roles and limits
///   - network/OracleAccess.sol    which oracle watches, and what it is asked
///   - network/Purse.sol           money is credited, and fetched by its owner
///   - network/Members.sol         nodes join, pause, resume, leave
///   - network/Downloads.sol       nodes are asked to download a model
///   - network/Tasks.sol           the book of tasks and groups, and what the end of one does
///   - network/Floors.sol          what a task pays and gives at least
///   - network/TaskOrders.sol      a task is created,
///   - network/TaskStarts.sol      given to a node,
///   - network/Probes.sol          both at once, by the dispatcher,
///   - network/TaskAnswers.sol     answered,
///   - network/TaskVerdicts.sol    and judged
///   - network/Contests.sol        who is slashed, in the end
/// Its balance is the sum of all stakes, also of who has left and is not judged yet, of the fees of open tasks, and of what waits to be withdrawn.
contract TaskNetwork is IKickTarget, Contests, Probes, TaskAnswers, TaskVerdicts, Downloads {
    /// @param admin_ sets roles and limits
    /// @param dispatcher_ starts tasks
    /// @param treasury_ is credited with slashed stakes and tolls
    /// @param minStake least stake of a node, wei
    /// @param floor what tasks of every kind pay and give at least, until it is changed
    constructor(address admin_, address dispatcher_, address treasury_, uint96 minStake, Floor memory floor)
        Administration(admin_, dispatcher_, treasury_, minStake)
        Floors(floor)
    {}

    /// @inheritdoc IKickTarget
    /// @dev Never refused: a task that runs is aborted, its fee goes back to the creator. Answers that wait for their
    /// judgement are judged all the same; the stake answers for them, and is credited after the last of them.
    function kick(address account, bytes32 evidence) external {
        if (msg.sender != address(oracle)) revert NotOracle(msg.sender);
        if (!_isIn(_nodes[account])) return;
        _abortRunning(account);
        _kickOut(account, evidence);
        _settle(account);
    }
}
