// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IQoSOracle} from "../IQoSOracle.sol";
import {IQoSRoots} from "../roots/IQoSRoots.sol";
import {Administration} from "./Administration.sol";

/// @title The network's oracle and the scores that it reads, and the calls to them
/// @notice The oracle decides in two places: a node that it has expelled gets no task, and a node that leaves while its
/// kickout is pending is kicked out. If the admin has set a contract with scores, that contract decides which node may
/// get a task. A contract that is missing, reverts, needs more than ORACLE_GAS or returns anything but one word is
/// treated as not set, because no stake and no task may depend on its health.
abstract contract OracleAccess is Administration {
    /// @dev Gas limit of a call to the oracle or to the scores.
    uint256 internal constant ORACLE_GAS = 50_000;

    /// @notice The oracle, which may kick nodes out; 0 until it is set.
    IQoSRoots public oracle;

    /// @notice Scores of the nodes, which are read before a task starts; for example QoSWords. 0 = none.
    IQoSOracle public scores;

    /// @notice The oracle was set to `oracle`.
    event OracleSet(address indexed oracle);

    /// @notice The contract with the scores was set to `scores`, 0 = none.
    event ScoresSet(address indexed scores);

    /// @notice The sender is not the oracle contract.
    error NotOracle(address sender);

    /// @notice There is no contract at this address.
    error NoCode(address account);

    /// @notice Replaces the oracle. Accusations by the old one no longer end any membership. The scores stay; set them
    /// too if they are those of the old oracle.
    function setOracle(IQoSRoots to) external onlyAdmin {
        if (address(to).code.length == 0) revert NoCode(address(to));
        oracle = to;
        emit OracleSet(address(to));
    }

    /// @notice Sets the contract with the scores; zero = none, so that only expelled nodes get no task.
    function setScores(IQoSOracle to) external onlyAdmin {
        if (address(to) != address(0) && address(to).code.length == 0) revert NoCode(address(to));
        scores = to;
        emit ScoresSet(address(to));
    }

    /// @dev Returns whether the node may be given work: what the score contract returns if one is set, otherwise
    /// whether the oracle has not expelled the node.
    function _isSelectable(address node) internal view returns (bool) {
        return address(scores) != address(0)
            ? _ask(address(scores), IQoSOracle.isSelectable.selector, node, true)
            : !_ask(address(oracle), IQoSRoots.isExpelled.selector, node, false);
    }

    /// @dev Returns whether a kickout of the node is pending. A node that leaves cannot hide it by starving the call of
    /// gas: the call gets all but a 64th of the gas, so if that is too little, the rest does not suffice for leaving
    /// either.
    function _isKickPending(address node) internal view returns (bool) {
        return _ask(address(oracle), IQoSRoots.isKickPending.selector, node, false);
    }

    /// @dev Copies only the first word of the return data, so that long return data cost nothing.
    /// @param otherwise value returned if the contract does not return one word within the gas limit
    function _ask(address to, bytes4 question, address node, bool otherwise) private view returns (bool yes) {
        uint256 argument = uint160(node);
        yes = otherwise;
        assembly ("memory-safe") {
            mstore(0, question)
            mstore(4, argument)
            let done := staticcall(ORACLE_GAS, to, 0, 36, 0, 32)
            if and(done, eq(returndatasize(), 32)) { yes := iszero(iszero(mload(0))) }
        }
    }
}
