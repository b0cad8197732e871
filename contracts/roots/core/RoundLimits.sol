// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";

/// @notice Limits of reports and kickouts. One storage slot.
/// @param minInterval minimum seconds between rounds
/// @param anchorWindow maximum blocks between as-of and inclusion: 2 to 8191, on Arbitrum to 256
/// @param maxAgeSeconds maximum age of a fresh last round, to 30 days, and at least LAG + 1 intervals, so that a root
/// counts before it is stale
/// @param kickBelow a QoS, 0 to 10000: only nodes below it, or not to be selected, can be kicked out
/// @param vetoDelay seconds between accusation and execution of a kickout
/// @param kickRounds rounds between accusation and execution of a kickout
/// @param minOpen minimum open lanes of the last round for the execution of a kickout
struct Limits {
    uint24 minInterval;
    uint16 anchorWindow;
    uint24 maxAgeSeconds;
    uint16 kickBelow;
    uint24 vetoDelay;
    uint16 kickRounds;
    uint24 minOpen;
}

/// @title Range checks and comparison of limits
library RoundLimits {
    /// @dev The highest QoS.
    uint256 private constant MAX_QOS = 10_000;

    /// @dev Pause seconds are counted in 24 bits; their maximum is this and the longest pause.
    uint256 private constant LONGEST_AGE = 30 days;

    /// @notice Returns whether every limit is within its range; see Limits.
    /// @param lag number of newer rounds after which a root counts
    function canWork(Limits memory limits, uint256 lag, bool onArbitrum) internal pure returns (bool) {
        uint256 farthest = onArbitrum ? AsOfBlock.NEAR : AsOfBlock.FAR;
        return limits.anchorWindow > 1 && limits.anchorWindow <= farthest && limits.maxAgeSeconds != 0
            && limits.maxAgeSeconds <= LONGEST_AGE && (lag + 1) * limits.minInterval <= limits.maxAgeSeconds
            && limits.kickBelow <= MAX_QOS;
    }

    /// @notice Returns whether no limit of `limits` is looser than in `other`. anchorWindow has no tighter side: a
    /// short window stops rounds, a long one accepts older blocks.
    function isWithin(Limits memory limits, Limits memory other) internal pure returns (bool) {
        return limits.minInterval >= other.minInterval && limits.maxAgeSeconds <= other.maxAgeSeconds
            && limits.kickBelow <= other.kickBelow && limits.vetoDelay >= other.vetoDelay
            && limits.kickRounds >= other.kickRounds && limits.minOpen >= other.minOpen;
    }

    /// @notice Returns whether the pauser may replace `before` by `limits`: no limit is looser, no changed limit
    /// is tighter than in `tightest`, and anchorWindow does not change.
    function isTightening(Limits memory limits, Limits memory before, Limits memory tightest)
        internal
        pure
        returns (bool)
    {
        return isWithin(limits, before) && limits.anchorWindow == before.anchorWindow
            && (limits.minInterval == before.minInterval || limits.minInterval <= tightest.minInterval)
            && (limits.maxAgeSeconds == before.maxAgeSeconds || limits.maxAgeSeconds >= tightest.maxAgeSeconds)
            && (limits.kickBelow == before.kickBelow || limits.kickBelow >= tightest.kickBelow)
            && (limits.vetoDelay == before.vetoDelay || limits.vetoDelay <= tightest.vetoDelay)
            && (limits.kickRounds == before.kickRounds || limits.kickRounds <= tightest.kickRounds)
            && (limits.minOpen == before.minOpen || limits.minOpen <= tightest.minOpen);
    }
}
