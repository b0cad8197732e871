// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import {IQoSOracle} from "../IQoSOracle.sol";
import {Administration} from "./Administration.sol";

/// @title Which oracle watches the network, and what it is asked
/// @notice The oracle's word counts in two places: a node that it does not let be selected gets no task, and a node
/// that leaves while its kickout is proposed is kicked out. An oracle that is not there, fails, needs more than
/// ORACLE_GAS or says anything but a word is as good as none: no stake and no task may depend on its health.
abstract contract OracleAccess is Administration {
    /// @notice What a question to the oracle may cost, gas.
    uint256 public constant ORACLE_GAS = 50_000;

    /// @notice Watches the network, and may kick nodes out. 0 until it is set.
    IQoSOracle public oracle;

    /// @notice `oracle` watches the network from now on.
    event OracleSet(address indexed oracle);

    /// @notice The sender is not the oracle contract.
    error NotOracle(address sender);

    /// @notice There is no contract at this address.
    error NoCode(address account);

    /// @notice Replaces the oracle. Kickouts that the old one has proposed end nobody's membership any more.
    function setOracle(IQoSOracle to) external onlyAdmin {
        if (address(to).code.length == 0) revert NoCode(address(to));
        oracle = to;
        emit OracleSet(address(to));
    }

    /// @dev Whether the node may be given work.
    function _isSelectable(address node) internal view returns (bool) {
        return _ask(IQoSOracle.isSelectable.selector, node, true);
    }

    /// @dev Whether a kickout of the node is proposed and alive.
    /// Who leaves cannot starve the question to hide the answer: of the gas at hand it gets all but a 64th, so where
    /// it gets too little, what is left does not pay for leaving either.
    function _isKickPending(address node) internal view returns (bool) {
        return _ask(IQoSOracle.isKickPending.selector, node, false);
    }

    function _ask(bytes4 question, address node, bool otherwise) private view returns (bool) {
        bytes memory input = abi.encodeWithSelector(question, node);
        (bool done, bytes memory answer) = address(oracle).staticcall{gas: ORACLE_GAS}(input);
        return done && answer.length == 32 ? uint256(bytes32(answer)) != 0 : otherwise;
    }
}
