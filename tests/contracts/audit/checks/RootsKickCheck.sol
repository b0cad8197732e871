// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {NodeLeaf, QoSProof, RoundSummary} from "contracts/roots/QoSProof.sol";
import {Limits} from "contracts/roots/core/RoundLimits.sol";
import {AnyRoots} from "./AnyRoots.sol";

/// @title From any state of the oracle, a kickout is accused, executed and ended only when permitted
/// @dev A call that reverts is no counterexample: assertions apply to successful calls. Hashes are arbitrary,
/// so a leaf is in the root if the proof's hash equals it. `check_refuted_`: see LanesCheck.
contract RootsKickCheck is AnyRoots {
    using QoSProof for NodeLeaf;

    // --- execution ---

    function check_executed_is_the_accused_interval_of_the_last_root(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        RoundSummary calldata summary,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.executeKick(leaf, proof, summary);
        assert(kick.state == KickState.Accused && leaf.kickoutDueSinceOf() == kick.dueSince);
        assert(root != 0 && QoSProof.verifyLeaf(root, leaf, proof));
        assert(now_.roundConfig == now_.configCount);
        assert(leaf.flagsOf() & QoSProof.HELD == 0 || kick.allowed == kick.dueSince);
    }

    function check_executed_after_its_delay_while_it_is_due(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        RoundSummary calldata summary,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.executeKick(leaf, proof, summary);
        assert(block.timestamp >= kick.readyAt && LAST >= uint256(kick.round) + limits_.kickRounds);
        assert(leaf.laneOf() < uint256(limits_.kickBelow) + 2);
        assert(block.timestamp <= uint256(now_.pushedAt) + limits_.maxAgeSeconds + now_.heldSeconds);
        assert(summary.openCount >= limits_.minOpen && summary.round == LAST);
        assert(block.timestamp >= now_.pausedUntil && !now_.kicksPaused);
    }

    function check_executed_is_expelled_and_not_accused_again(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        RoundSummary calldata summary,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.executeKick(leaf, proof, summary);
        assert(this.isExpelled(leaf.node) && !this.isKickPending(leaf.node));
        assert(_kicks[leaf.node].sparedUntil == kick.dueSince);
    }

    function check_refuted_execution_is_impossible(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        RoundSummary calldata summary,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.executeKick(leaf, proof, summary);
        assert(false);
    }

    function check_refuted_executed_after_its_first_second(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        RoundSummary calldata summary,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.executeKick(leaf, proof, summary);
        assert(block.timestamp > kick.readyAt);
    }

    // --- accusation ---

    function check_accused_is_due_and_waits_for_the_veto(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.accuse(leaf, proof);
        NodeKick memory accused = _kicks[leaf.node];
        assert(accused.state == KickState.Accused && accused.dueSince == leaf.kickoutDueSinceOf());
        assert(accused.dueSince != 0 && accused.dueSince <= block.timestamp);
        assert(accused.dueSince > kick.sparedUntil && accused.sparedUntil == kick.sparedUntil);
        assert(accused.readyAt == block.timestamp + limits_.vetoDelay && accused.round == LAST);
        assert(leaf.laneOf() < uint256(limits_.kickBelow) + 2);
        assert(now_.roundConfig == now_.configCount);
    }

    function check_refuted_accusation_is_impossible(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.accuse(leaf, proof);
        assert(false);
    }

    function check_an_accusation_is_not_made_twice(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.accuse(leaf, proof);
        assert(kick.state != KickState.Accused || kick.dueSince != leaf.kickoutDueSinceOf());
    }

    // --- ends ---

    function check_only_another_interval_clears(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        this.clear(leaf, proof);
        assert(kick.state == KickState.Accused && leaf.kickoutDueSinceOf() != kick.dueSince);
        assert(_kicks[leaf.node].sparedUntil == kick.sparedUntil);
    }

    function check_only_readmission_ends_an_expulsion(
        NodeLeaf calldata leaf,
        bytes32[] calldata proof,
        NodeKick calldata kick,
        Head calldata now_,
        Limits calldata limits_,
        bytes32 root,
        uint8 which
    ) external {
        _put(leaf.node, kick, now_, limits_, root);
        vetoer = address(this);
        bool before = this.isExpelled(leaf.node);
        if (which == 0) this.accuse(leaf, proof);
        if (which == 1) this.clear(leaf, proof);
        if (which == 2) this.veto(leaf.node, bytes32(0));
        if (which == 3) this.allow(leaf.node, kick.dueSince);
        if (which == 4) this.retryKick(leaf.node);
        assert(!before || this.isExpelled(leaf.node));
    }

    function check_refuted_readmission_ends_no_expulsion(
        NodeLeaf calldata leaf, NodeKick calldata kick, Head calldata now_, Limits calldata limits_
    ) external {
        _put(leaf.node, kick, now_, limits_, bytes32(0));
        bool before = this.isExpelled(leaf.node);
        admin = address(this);
        this.readmit(leaf.node);
        assert(!before || this.isExpelled(leaf.node));
    }
}
