// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";
import {Lanes} from "./Lanes.sol";

/// @notice Limits of reports and kickouts. One storage slot.
/// @param maxWords maximum words in a report, 1 to 2047
/// @param maxNewNodes maximum indexes assigned in a report, appended and reused
/// @param minInterval minimum seconds between rounds
/// @param anchorWindow maximum blocks between as-of and inclusion: 2 to 8191, on Arbitrum to 256
/// @param maxAgeSeconds maximum age of a fresh last round (an older one excludes no node), 1 second to 30 days
/// @param kickBelow a QoS, 0 to 10000: only nodes below it, or not to be selected, can be kicked out
/// @param vetoDelay seconds between proposal and execution of a kickout
/// @param kickRounds rounds between proposal and execution of a kickout
/// @param kickWindow seconds in which a kickout that is ready can be executed, at least 1; then it expires
/// @param maxKicksPerRound maximum proposals in a round, 0 = none
/// @param minOpen minimum open lanes for the execution of a kickout
/// @param fallShare share of the open lanes that may fall in a round (four always may), in 1/10,000, to 10000
/// @param bigFall a QoS, 0 to 10000: a lane that drops by more counts as a fall; a closed lane always does
struct Limits {
    uint16 maxWords;
    uint16 maxNewNodes;
    uint24 minInterval;
    uint16 anchorWindow;
    uint24 maxAgeSeconds;
    uint16 kickBelow;
    uint24 vetoDelay;
    uint16 kickRounds;
    uint24 kickWindow;
    uint8 maxKicksPerRound;
    uint24 minOpen;
    uint16 fallShare;
    uint16 bigFall;
}

/// @title Range checks and comparison of limits
library LimitRules {
    /// @notice Bounds of tightening in seconds, so that it cannot stop rounds and kickouts for ever.
    uint256 internal constant LONGEST_INTERVAL = 1 hours;
    uint256 internal constant LONGEST_VETO = 7 days;
    uint256 internal constant SHORTEST_AGE = 2 hours;

    /// @dev Rounds adds up two numbers for each lane of a report in 16 bits.
    uint256 private constant MOST_WORDS = 2_047;

    /// @dev Pause seconds are counted in 24 bits; their maximum is this and the longest pause.
    uint256 private constant LONGEST_AGE = 30 days;

    /// @notice Returns whether every limit is within its range; see Limits.
    function canWork(Limits memory one, bool onArbitrum) internal pure returns (bool) {
        uint256 farthest = onArbitrum ? AsOfBlock.NEAR : AsOfBlock.FAR;
        return one.maxWords != 0 && one.maxWords <= MOST_WORDS && one.anchorWindow > 1
            && one.anchorWindow <= farthest && one.maxAgeSeconds != 0 && one.maxAgeSeconds <= LONGEST_AGE
            && one.kickBelow <= Lanes.MAX_QOS && one.kickWindow != 0 && one.fallShare <= 10_000
            && one.bigFall <= Lanes.MAX_QOS;
    }

    /// @notice Returns whether no limit of `one` is looser than in `other`. anchorWindow has no tighter side: a short
    /// window stops rounds, a long one accepts older blocks.
    function isWithin(Limits memory one, Limits memory other) internal pure returns (bool) {
        return one.maxWords <= other.maxWords && one.maxNewNodes <= other.maxNewNodes
            && one.minInterval >= other.minInterval && one.maxAgeSeconds <= other.maxAgeSeconds
            && _kicksWithin(one, other) && one.fallShare <= other.fallShare && one.bigFall <= other.bigFall;
    }

    /// @notice Returns whether the pauser may replace `before` by `one`: no limit is looser, and rounds still work.
    function isTightening(Limits memory one, Limits memory before) internal pure returns (bool) {
        return isWithin(one, before) && one.anchorWindow == before.anchorWindow
            && (one.minInterval == before.minInterval || one.minInterval <= LONGEST_INTERVAL)
            && (one.vetoDelay == before.vetoDelay || one.vetoDelay <= LONGEST_VETO)
            && (one.maxAgeSeconds == before.maxAgeSeconds || one.maxAgeSeconds >= SHORTEST_AGE);
    }

    function _kicksWithin(Limits memory one, Limits memory other) private pure returns (bool) {
        return one.kickBelow <= other.kickBelow && one.vetoDelay >= other.vetoDelay
            && one.kickRounds >= other.kickRounds && one.kickWindow <= other.kickWindow
            && one.maxKicksPerRound <= other.maxKicksPerRound && one.minOpen >= other.minOpen;
    }
}
