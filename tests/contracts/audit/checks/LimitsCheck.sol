// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LimitRules, Limits} from "contracts/oracle/Limits.sol";

/// @title What the pauser may tighten at once gives nobody more room, and stops nothing for ever
/// @dev Siblings `check_refuted_`: see LanesCheck.
contract LimitsCheck {
    function check_tightening_loosens_no_limit(Limits memory before, Limits memory wanted) external pure {
        if (!LimitRules.isTightening(wanted, before)) return;
        assert(wanted.maxWords <= before.maxWords && wanted.maxNewNodes <= before.maxNewNodes);
        assert(wanted.minInterval >= before.minInterval && wanted.anchorWindow == before.anchorWindow);
        assert(wanted.maxAgeSeconds <= before.maxAgeSeconds);
        assert(wanted.fallShare <= before.fallShare && wanted.bigFall <= before.bigFall);
    }

    function check_tightening_loosens_no_limit_of_kickouts(Limits memory before, Limits memory wanted) external pure {
        if (!LimitRules.isTightening(wanted, before)) return;
        assert(wanted.kickBelow <= before.kickBelow && wanted.vetoDelay >= before.vetoDelay);
        assert(wanted.kickRounds >= before.kickRounds && wanted.kickWindow <= before.kickWindow);
        assert(wanted.maxKicksPerRound <= before.maxKicksPerRound && wanted.minOpen >= before.minOpen);
    }

    function check_refuted_tightening_changes_nothing(Limits memory before, Limits memory wanted) external pure {
        if (!LimitRules.isTightening(wanted, before)) return;
        assert(wanted.vetoDelay == before.vetoDelay);
    }

    function check_tightening_stops_nothing_for_ever(Limits memory before, Limits memory wanted) external pure {
        if (!LimitRules.isTightening(wanted, before)) return;
        assert(wanted.minInterval <= 1 hours || wanted.minInterval == before.minInterval);
        assert(wanted.vetoDelay <= 7 days || wanted.vetoDelay == before.vetoDelay);
        assert(wanted.maxAgeSeconds >= 2 hours || wanted.maxAgeSeconds == before.maxAgeSeconds);
    }

    function check_refuted_tightening_ends_a_second_earlier(Limits memory before, Limits memory wanted) external pure {
        if (!LimitRules.isTightening(wanted, before)) return;
        assert(wanted.minInterval < 1 hours || wanted.minInterval == before.minInterval);
    }
}
