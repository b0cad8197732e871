// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Limits} from "contracts/roots/core/RoundLimits.sol";
import {AnyRoots} from "./AnyRoots.sol";

/// @title A pause ends, cannot be chained, holds fresh scores and revives no stale ones
/// @dev The pauser is the contract itself. `check_refuted_`: see LanesCheck.
contract RootsPauseCheck is AnyRoots {
    function check_a_pause_holds_fresh_scores_and_revives_no_others(
        Head calldata now_, Limits calldata limits_, uint40 time
    ) external {
        _head = now_;
        _limits = limits_;
        bool isFresh_ = block.timestamp <= uint256(now_.pushedAt) + limits_.maxAgeSeconds + now_.heldSeconds;
        this.pauseFor(time);
        assert(_head.heldSeconds == uint256(now_.heldSeconds) + (isFresh_ ? time : 0));
        assert(_head.pausedUntil == block.timestamp + time && time <= 7 days && time != 0);
    }

    function check_refuted_a_pause_holds_all_scores(Head calldata now_, Limits calldata limits_, uint40 time) external {
        _head = now_;
        _limits = limits_;
        this.pauseFor(time);
        assert(_head.heldSeconds == uint256(now_.heldSeconds) + time);
    }

    function check_a_pause_waits_as_long_as_the_last_one_was(Head calldata now_, uint24 last_, uint40 time) external {
        _head = now_;
        pauseSeconds = last_;
        this.pauseFor(time);
        assert(block.timestamp >= uint256(now_.pausedUntil) + last_);
    }

    function check_refuted_a_pause_waits_a_second_more(Head calldata now_, uint24 last_, uint40 time) external {
        _head = now_;
        pauseSeconds = last_;
        this.pauseFor(time);
        assert(block.timestamp > uint256(now_.pausedUntil) + last_);
    }

    function check_a_pause_that_is_resumed_was_never_longer(Head calldata now_, Limits calldata limits_, uint40 time)
        external
    {
        _head = now_;
        _limits = limits_;
        admin = address(this);
        this.pauseFor(time);
        this.resume();
        assert(_head.heldSeconds == now_.heldSeconds && pauseSeconds == 0);
        assert(_head.pausedUntil == block.timestamp);
    }

    function check_rounds_are_struck_only_in_a_pause(Head calldata now_, uint32 from, bytes32 root) external {
        _head = now_;
        _head.round = LAST;
        _keepRoot(LAST, root);
        this.strike(from);
        assert(block.timestamp < now_.pausedUntil && from != 0 && from <= LAST);
        assert(this.lastRoot() == 0);
    }
}
