// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Limits, RoundLimits} from "contracts/roots/core/RoundLimits.sol";

/// @title The pauser loosens no limit, and tightens none beyond its end
/// @dev `check_refuted_`: see LanesCheck.
contract RootsLimitsCheck {
    function check_tightening_loosens_no_limit(Limits memory before, Limits memory wanted, Limits memory end)
        external
        pure
    {
        if (!RoundLimits.isTightening(wanted, before, end)) return;
        assert(wanted.minInterval >= before.minInterval && wanted.anchorWindow == before.anchorWindow);
        assert(wanted.maxAgeSeconds <= before.maxAgeSeconds && wanted.kickBelow <= before.kickBelow);
        assert(wanted.vetoDelay >= before.vetoDelay && wanted.kickRounds >= before.kickRounds);
        assert(wanted.minOpen >= before.minOpen);
    }

    function check_refuted_tightening_changes_nothing(Limits memory before, Limits memory wanted, Limits memory end)
        external
        pure
    {
        if (!RoundLimits.isTightening(wanted, before, end)) return;
        assert(wanted.minOpen == before.minOpen);
    }

    /// @dev Limits that begin within the ends stay within them, however often the pauser tightens.
    function check_tightening_has_an_end(Limits memory before, Limits memory wanted, Limits memory end) external pure {
        if (!RoundLimits.isTightening(wanted, before, end)) return;
        if (!RoundLimits.isWithin(end, before)) return;
        assert(wanted.minInterval <= end.minInterval && wanted.maxAgeSeconds >= end.maxAgeSeconds);
        assert(wanted.kickBelow >= end.kickBelow && wanted.vetoDelay <= end.vetoDelay);
        assert(wanted.kickRounds <= end.kickRounds && wanted.minOpen <= end.minOpen);
    }

    function check_refuted_tightening_ends_one_earlier(Limits memory before, Limits memory wanted, Limits memory end)
        external
        pure
    {
        if (!RoundLimits.isTightening(wanted, before, end)) return;
        if (!RoundLimits.isWithin(end, before)) return;
        assert(wanted.kickRounds < end.kickRounds || wanted.kickRounds == before.kickRounds);
    }

    /// @dev Limits that the admin set beyond an end cannot be tightened further.
    function check_no_limit_moves_beyond_its_end(Limits memory before, Limits memory wanted, Limits memory end)
        external
        pure
    {
        if (!RoundLimits.isTightening(wanted, before, end)) return;
        assert(wanted.minInterval <= end.minInterval || wanted.minInterval == before.minInterval);
        assert(wanted.maxAgeSeconds >= end.maxAgeSeconds || wanted.maxAgeSeconds == before.maxAgeSeconds);
        assert(wanted.kickBelow >= end.kickBelow || wanted.kickBelow == before.kickBelow);
        assert(wanted.vetoDelay <= end.vetoDelay || wanted.vetoDelay == before.vetoDelay);
        assert(wanted.kickRounds <= end.kickRounds || wanted.kickRounds == before.kickRounds);
        assert(wanted.minOpen <= end.minOpen || wanted.minOpen == before.minOpen);
    }

    /// @dev A root that is `lag` rounds old is not stale if rounds come as often as they may.
    function check_a_root_counts_before_it_is_stale(Limits memory wanted, uint32 lag) external pure {
        if (!RoundLimits.canWork(wanted, lag, false)) return;
        assert(uint256(lag) * wanted.minInterval + wanted.minInterval <= wanted.maxAgeSeconds);
    }

    function check_refuted_a_root_counts_a_second_before_it_is_stale(Limits memory wanted, uint32 lag) external pure {
        if (!RoundLimits.canWork(wanted, lag, false)) return;
        assert(uint256(lag) * wanted.minInterval + wanted.minInterval < wanted.maxAgeSeconds);
    }
}
