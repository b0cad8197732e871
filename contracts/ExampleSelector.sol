// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSOracle} from "./IQoSOracle.sol";

/// @title A consumer of the oracle: draws a node, the better the likelier
/// @notice An example to start from. The candidates are the caller's: who is a member and free, the network knows.
contract ExampleSelector {
    IQoSOracle public immutable ORACLE;

    /// @notice No candidate may be selected.
    error NobodyToSelect();

    constructor(IQoSOracle oracle) {
        ORACLE = oracle;
    }

    /// @notice Draws one of the candidates with a chance in proportion to its weight.
    /// @param candidates members that are free
    /// @param seed a number that the candidates cannot steer
    /// @return node the one drawn; reverts NobodyToSelect when none may be
    function pick(address[] calldata candidates, uint256 seed) external view returns (address node) {
        uint256[] memory weights = new uint256[](candidates.length);
        uint256 total;
        for (uint256 i; i < candidates.length; ++i) {
            weights[i] = ORACLE.weightOf(candidates[i]);
            total += weights[i];
        }
        if (total == 0) revert NobodyToSelect();
        uint256 drawn = seed % total;
        uint256 last;
        while (drawn >= weights[last]) {
            drawn -= weights[last++];
        }
        return candidates[last];
    }
}
