// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IKickTarget} from "../IKickTarget.sol";

/// @title Misbehaving kick target, to test the oracle
contract HostileTarget is IKickTarget {
    enum Behavior {
        Quiet,
        RefusesLong,
        EatsGas,
        ReturnsMuch,
        RevertsMuch,
        CallsBack
    }

    Behavior public behavior;

    /// @notice Contracts that `kick` calls back, in order; their inputs are in _inputs.
    address[] private _called;
    bytes[] private _inputs;

    /// @notice `gas` was left at the beginning of the call.
    event Kicked(address indexed node, bytes32 evidence, uint256 gas);
    event CalledBack(bool done, bytes4 reason);

    /// @notice Longer than the part of a reason that the oracle keeps.
    error NotToday(uint256 first, uint256 second);

    function behave(Behavior wanted) external {
        behavior = wanted;
    }

    /// @notice Adds a call that `kick` makes from now on.
    function callBack(address to, bytes calldata input) external {
        behavior = Behavior.CallsBack;
        _called.push(to);
        _inputs.push(input);
    }

    /// @inheritdoc IKickTarget
    function kick(address node, bytes32 evidence) external {
        uint256 given = gasleft();
        Behavior now_ = behavior;
        if (now_ == Behavior.RefusesLong) revert NotToday(1, 2);
        if (now_ == Behavior.ReturnsMuch) _end(true, 100_000);
        if (now_ == Behavior.RevertsMuch) _end(false, 100_000);
        while (now_ == Behavior.EatsGas) {}
        emit Kicked(node, evidence, given);
        for (uint256 i; i < _called.length; ++i) {
            (bool done, bytes memory answer) = _called[i].call(_inputs[i]);
            emit CalledBack(done, bytes4(answer));
        }
    }

    function _end(bool well, uint256 size) private pure {
        assembly ("memory-safe") {
            if well { return(0, size) }
            revert(0, size)
        }
    }
}
