// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Limits} from "contracts/oracle/Limits.sol";
import {AnyRoles} from "./AnyOracle.sol";

/// @title A pause ends, cannot be chained, holds fresh scores and wakes no dead ones
/// @dev Siblings `check_refuted_`: see LanesCheck.
contract PauseCheck is AnyRoles {
    function check_a_pause_holds_fresh_scores_and_wakes_no_others(Head calldata now_, Limits calldata limits_, uint40 time)
        external
    {
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

    function check_a_pause_waits_as_long_as_the_last_one_was(Head calldata now_, uint24 last, uint40 time) external {
        _head = now_;
        pauseSeconds = last;
        this.pauseFor(time);
        assert(block.timestamp >= uint256(now_.pausedUntil) + last);
    }

    function check_refuted_a_pause_waits_a_second_more(Head calldata now_, uint24 last, uint40 time) external {
        _head = now_;
        pauseSeconds = last;
        this.pauseFor(time);
        assert(block.timestamp > uint256(now_.pausedUntil) + last);
    }

    function check_a_pause_that_is_ended_was_never_longer(Head calldata now_, Limits calldata limits_, uint40 time)
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
}
