// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

import {IKickTarget} from "@qos-oracle/contracts/IKickTarget.sol";
import {IQoSOracle} from "@qos-oracle/contracts/IQoSOracle.sol";

/// @dev A third-party project: the parts of the package that it imports.
contract Consumer {
    IQoSOracle public immutable ORACLE;
    IKickTarget public immutable TARGET;

    constructor(IQoSOracle oracle, IKickTarget target) {
        ORACLE = oracle;
        TARGET = target;
    }

    function mayBeGivenWork(address node) external view returns (bool) {
        return ORACLE.isSelectable(node);
    }
}
