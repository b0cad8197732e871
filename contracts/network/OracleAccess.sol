// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IQoSOracle} from "../IQoSOracle.sol";
import {Administration} from "./Administration.sol";

/// @title The network's oracle, and the calls to it
/// @notice The oracle decides in two places: a node that is not selectable gets no task, and a node that leaves while
/// its kickout is proposed is kicked out. A missing oracle, or one that reverts, needs more than ORACLE_GAS or returns
/// anything but one word, counts as none: no stake and no task may depend on its health.
abstract contract OracleAccess is Administration {
    /// @notice Gas limit of a call to the oracle.
    uint256 public constant ORACLE_GAS = 50_000;

    /// @notice Scores the network's nodes, and may kick them out. 0 until it is set.
    IQoSOracle public oracle;

    /// @notice The oracle was set to `oracle`.
    event OracleSet(address indexed oracle);

    /// @notice The sender is not the oracle contract.
    error NotOracle(address sender);

    /// @notice There is no contract at this address.
    error NoCode(address account);

    /// @notice Replaces the oracle. Kickouts that the old one has proposed no longer end any membership.
    function setOracle(IQoSOracle to) external onlyAdmin {
        if (address(to).code.length == 0) revert NoCode(address(to));
        oracle = to;
        emit OracleSet(address(to));
    }

    /// @dev Returns whether the node may be given work.
    function _isSelectable(address node) internal view returns (bool) {
        return _ask(IQoSOracle.isSelectable.selector, node, true);
    }

    /// @dev Returns whether a kickout of the node is proposed and not expired. A node that leaves cannot hide it by
    /// starving the call of gas: the call gets all but a 64th of the gas, so if that is too little, the rest does not
    /// suffice for leaving either.
    function _isKickPending(address node) internal view returns (bool) {
        return _ask(IQoSOracle.isKickPending.selector, node, false);
    }

    function _ask(bytes4 question, address node, bool otherwise) private view returns (bool) {
        bytes memory input = abi.encodeWithSelector(question, node);
        (bool done, bytes memory answer) = address(oracle).staticcall{gas: ORACLE_GAS}(input);
        return done && answer.length == 32 ? uint256(bytes32(answer)) != 0 : otherwise;
    }
}
