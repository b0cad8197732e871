// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AsOfBlock} from "./AsOfBlock.sol";
import {Lanes} from "./Lanes.sol";

/// @notice What no caller can go beyond. One storage slot.
/// @param maxWords most words in one report, 1 to 2047
/// @param maxNewNodes most indexes given in one report, appended and reused
/// @param minInterval seconds between rounds
/// @param anchorWindow most blocks between as-of and inclusion: 2 to 8191, on Arbitrum to 256
/// @param maxAgeSeconds a last round older than this excludes nobody, 1 to 30 days
/// @param kickBelow a QoS, 0 to 10000: only nodes below it, or not to be selected, can be kicked out
/// @param vetoDelay seconds between proposal and execution of a kickout
/// @param kickRounds rounds between proposal and execution of a kickout
/// @param kickWindow seconds in which a kickout that is ready can be executed, at least 1; then it dies
/// @param maxKicksPerRound most proposals in one round, 0 = none
/// @param minOpen a kickout is executed only while at least so many lanes are open
/// @param fallShare hundredths of a percent of the open lanes that may fall in one round (four always may), to 10000
/// @param bigFall a QoS, 0 to 10000: a lane that sinks by more counts as fallen; one that is closed always does
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

/// @title Which limits can work, and which of two are the tighter ones
library LimitRules {
    /// @notice Tightening ends here, so that it is no way to stop rounds and kickouts for ever: seconds.
    uint256 internal constant LONGEST_INTERVAL = 1 hours;
    uint256 internal constant LONGEST_VETO = 7 days;
    uint256 internal constant SHORTEST_AGE = 2 hours;

    /// @dev Two numbers for each lane of a report are added up in 16 bits; see Rounds.
    uint256 private constant MOST_WORDS = 2_047;

    /// @dev Seconds held in pauses are counted in 24 bits; they come to no more than this and the longest pause.
    uint256 private constant LONGEST_AGE = 30 days;

    /// @notice Every limit is within its range; see Limits.
    function canWork(Limits memory one, bool onArbitrum) internal pure returns (bool) {
        uint256 farthest = onArbitrum ? AsOfBlock.NEAR : AsOfBlock.FAR;
        return one.maxWords != 0 && one.maxWords <= MOST_WORDS && one.anchorWindow > 1
            && one.anchorWindow <= farthest && one.maxAgeSeconds != 0 && one.maxAgeSeconds <= LONGEST_AGE
            && one.kickBelow <= Lanes.MAX_QOS && one.kickWindow != 0 && one.fallShare <= 10_000
            && one.bigFall <= Lanes.MAX_QOS;
    }

    /// @notice No limit of `one` gives more room than that of `other`. anchorWindow has no tight side: a short one
    /// stops rounds, a long one lets older blocks in.
    function isWithin(Limits memory one, Limits memory other) internal pure returns (bool) {
        return one.maxWords <= other.maxWords && one.maxNewNodes <= other.maxNewNodes
            && one.minInterval >= other.minInterval && one.maxAgeSeconds <= other.maxAgeSeconds
            && _kicksWithin(one, other) && one.fallShare <= other.fallShare && one.bigFall <= other.bigFall;
    }

    /// @notice `one` may follow `before` at once: it is within it, and what it tightens stays where rounds still work.
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
