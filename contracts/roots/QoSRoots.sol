// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {KickoutLimits} from "./core/KickoutLimits.sol";
import {KickoutsByProof} from "./core/KickoutsByProof.sol";
import {OracleRoles} from "./core/OracleRoles.sol";
import {ReportSigners} from "./core/ReportSigners.sol";
import {RoundHead} from "./core/RoundHead.sol";
import {Limits} from "./core/RoundLimits.sol";

/// @title QoS oracle: one Merkle root of a network's nodes for each round, reported by a quorum of signers
/// @notice A report is a root, signed by more than half of the signers. It names the previous root, and a block whose
/// hash the chain confirms. With a root, any account can prove a score, the absence of an address or a due kickout. The
/// network needs no code for this, and a round costs the same for any number of nodes.
/// @dev Parts: core/RoundHead (head, roots), core/RoundLimits, core/OracleRoles (admin, pause, veto),
/// core/ReportSigners (signatures, configuration), core/RootRounds (push, strike), core/KickoutsByProof,
/// core/KickoutLimits (rate limit). Here: the constructor and the setters. There is no proxy: a new oracle has a new
/// address.
contract QoSRoots is KickoutsByProof {
    /// @notice Arguments of the constructor.
    /// @param admin sets everything below but kept, lag, floors, tightest, expelled and arbitrum; should be a timelock;
    /// cannot write scores
    /// @param pauser may pause the oracle for a bounded time, strike rounds, tighten limits and drop signers; zero =
    /// none
    /// @param vetoer may cancel kickouts and the timelock's operations, zero = none
    /// @param target contract that is called to end a membership, zero = none; may have no code yet
    /// @param signers addresses that sign reports, 1 to 255
    /// @param quorum number of signatures required, more than half of the signers
    /// @param rulesHash sha256 of the rules' canonical JSON, not 0
    /// @param kept number of rounds whose roots are kept, more than lag; usually 256
    /// @param lag number of newer rounds that a consumer with money at stake waits for; usually 2
    /// @param limits see Limits
    /// @param floors the loosest limits that can ever be set
    /// @param tightest the tightest limits that the pauser can set, under which the network still works
    /// @param kickLimits see KickLimits; the bucket is full at first
    /// @param kickFloors the loosest limits of kickouts that can ever be set
    /// @param expelled nodes that the previous oracle had expelled
    /// @param arbitrum whether this is an Arbitrum chain
    struct Setup {
        address admin;
        address pauser;
        address vetoer;
        address target;
        address[] signers;
        uint8 quorum;
        bytes32 rulesHash;
        uint32 kept;
        uint32 lag;
        Limits limits;
        Limits floors;
        Limits tightest;
        KickLimits kickLimits;
        KickLimits kickFloors;
        address[] expelled;
        bool arbitrum;
    }

    constructor(Setup memory setup)
        RoundHead(setup.arbitrum, setup.kept, setup.lag, setup.limits, setup.floors, setup.tightest)
        ReportSigners(setup.signers, setup.quorum, setup.rulesHash)
        OracleRoles(setup.admin, setup.pauser, setup.vetoer)
        KickoutLimits(setup.kickLimits, setup.kickFloors)
        KickoutsByProof(setup.target, setup.expelled)
    {}

    /// @notice Replaces the signers. Invalidates all earlier signatures; kickouts wait for a root of the new signers.
    function setSigners(address[] calldata wanted, uint8 needed) external onlyAdmin {
        _setSigners(wanted, needed);
    }

    /// @notice Drops a signer whose key is lost or stolen; at least a quorum must remain. Invalidates all earlier
    /// signatures; kickouts wait for a root of the remaining signers.
    function dropSigner(address who) external onlyPauser {
        _dropSigner(who);
    }

    /// @notice Sets the scoring rules: daemons with other rules stop at once. Invalidates all earlier signatures;
    /// kickouts wait for a root under the new rules.
    /// @param wanted sha256 of the rules' canonical JSON, not 0
    function setRules(bytes32 wanted) external onlyAdmin {
        _setRules(wanted);
    }

    /// @notice Replaces all limits, within the floors.
    function setLimits(Limits calldata wanted) external onlyAdmin {
        _setLimits(wanted);
    }

    /// @notice Tightens limits, at once: no limit gets looser, anchorWindow does not change, and no changed limit is
    /// tighter than in tightest().
    function tightenLimits(Limits calldata wanted) external onlyPauser {
        _tightenLimits(wanted);
    }
}
