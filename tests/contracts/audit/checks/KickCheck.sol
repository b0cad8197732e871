// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Limits} from "contracts/oracle/Limits.sol";
import {AnyOracle} from "./AnyOracle.sol";

/// @title A kickout is proposed, executed and cancelled when it may be, from whatever state the oracle is in
/// @dev A call that reverts is no counterexample: what is asserted is of those that went through. Siblings
/// `check_refuted_`: see LanesCheck.
contract KickCheck is AnyOracle {
    // --- Execution ---

    function check_executed_is_what_was_proposed_under_this_configuration(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(held.kick == KickState.Pending && held.config == now_.configCount);
    }

    function check_refuted_execution_is_impossible(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(false);
    }

    function check_executed_in_its_window(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(block.timestamp >= held.readyAt && block.timestamp <= held.diesAt);
        assert(now_.round >= uint256(held.round) + limits_.kickRounds);
    }

    function check_refuted_executed_after_its_first_second(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(block.timestamp > held.readyAt);
    }

    function check_refuted_executed_before_its_last_second(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(block.timestamp < held.diesAt);
    }

    function check_executed_while_it_is_due(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(_laneIn(lanes, held) < uint256(limits_.kickBelow) + 2);
        assert(block.timestamp <= uint256(now_.pushedAt) + limits_.maxAgeSeconds + now_.heldSeconds);
        assert(now_.openCount >= limits_.minOpen);
        assert(block.timestamp >= now_.pausedUntil && !now_.kicksPaused);
    }

    function check_refuted_executed_with_more_open_than_needed(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(now_.openCount > limits_.minOpen);
    }

    function check_executed_is_expelled_for_every_reader(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.executeKick(node);
        assert(this.weightOf(node) == 0 && !this.isSelectable(node) && this.isExpelled(node));
        assert(_nodes[node].indexPlusOne == held.indexPlusOne);
    }

    // --- Proposal ---

    /// @dev In the fifth round: a digest is kept where its round says, and a place that is a symbol is nowhere.
    function check_proposed_is_low_and_waits_for_the_veto(
        address node,
        Node calldata held,
        Head calldata now_,
        Limits calldata limits_,
        uint256 lanes,
        uint40 deadline,
        bytes calldata signatures
    ) external {
        _be(node, held, now_, limits_, lanes);
        _head.round = 5;
        this.proposeKick(5, bytes32(0), node, bytes32(uint256(7)), deadline, signatures);
        Node memory pending = _nodes[node];
        assert(_laneIn(lanes, held) < uint256(limits_.kickBelow) + 2);
        assert(pending.kick == KickState.Pending && pending.config == now_.configCount);
        assert(pending.readyAt == block.timestamp + limits_.vetoDelay);
        assert(pending.diesAt == uint256(pending.readyAt) + limits_.kickWindow);
        assert(pending.round == 5 && pending.indexPlusOne == held.indexPlusOne);
    }

    function check_refuted_proposals_are_impossible(
        address node,
        Node calldata held,
        Head calldata now_,
        Limits calldata limits_,
        uint256 lanes,
        uint40 deadline,
        bytes calldata signatures
    ) external {
        _be(node, held, now_, limits_, lanes);
        _head.round = 5;
        this.proposeKick(5, bytes32(0), node, bytes32(uint256(7)), deadline, signatures);
        assert(false);
    }

    // --- An expulsion stays ---

    function check_only_readmission_ends_an_expulsion(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, bytes32 why, uint8 which
    ) external {
        _be(node, held, now_, limits_, 0);
        bool before = _expelled(_nodes[node]);
        if (which == 0) this.cancelKick(node, why);
        if (which == 1) this.executeKick(node);
        if (which == 2) this.retryKick(node);
        assert(!before || _expelled(_nodes[node]));
    }

    function check_refuted_readmission_ends_no_expulsion(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_
    ) external {
        _be(node, held, now_, limits_, 0);
        bool before = _expelled(_nodes[node]);
        admin = address(this);
        this.readmit(node);
        assert(!before || _expelled(_nodes[node]));
    }

    // --- Cancellation ---

    function check_nobody_but_the_vetoer_cancels_what_lasts(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        this.cancelKick(node, bytes32(0));
        bool isLate = block.timestamp > held.diesAt || held.config != now_.configCount;
        assert(isLate || _laneIn(lanes, held) >= uint256(limits_.kickBelow) + 2);
    }

    function check_refuted_the_vetoer_cancels_no_more_than_others(
        address node, Node calldata held, Head calldata now_, Limits calldata limits_, uint256 lanes
    ) external {
        _be(node, held, now_, limits_, lanes);
        vetoer = address(this);
        this.cancelKick(node, bytes32(0));
        bool isLate = block.timestamp > held.diesAt || held.config != now_.configCount;
        assert(isLate || _laneIn(lanes, held) >= uint256(limits_.kickBelow) + 2);
    }
}
