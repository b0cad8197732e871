// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSOracle} from "./IQoSOracle.sol";

/// @title Example consumer: weighted random selection of a node
/// @notice An example to start from. The caller supplies the candidates: the network's free members. A draw over all
/// nodes without a list of candidates is in roots/consumers/SeatDraw.sol.
contract ExampleSelector {
    /// @notice Weights of the candidates, for example a QoSWords.
    IQoSOracle public immutable SCORES;

    /// @notice No candidate has a weight above 0.
    error NobodyToSelect();

    constructor(IQoSOracle scores) {
        SCORES = scores;
    }

    /// @notice Draws one of the candidates with a probability proportional to its weight.
    /// @param candidates members that are free
    /// @param seed a number that the candidates cannot influence
    /// @return node the drawn candidate; reverts with NobodyToSelect if no weight is above 0
    function pick(address[] calldata candidates, uint256 seed) external view returns (address node) {
        uint256[] memory weights = new uint256[](candidates.length);
        uint256 total;
        for (uint256 i; i < candidates.length; ++i) {
            weights[i] = SCORES.weightOf(candidates[i]);
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
