// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {KickCounts} from "./oracle/KickCounts.sol";
import {Kickouts} from "./oracle/Kickouts.sol";
import {LimitRules, Limits} from "./oracle/Limits.sol";
import {OracleHead} from "./oracle/OracleHead.sol";
import {Roles} from "./oracle/Roles.sol";
import {Rounds} from "./oracle/Rounds.sol";
import {SignerQuorum} from "./oracle/SignerQuorum.sol";

/// @title QoS oracle: scores of a network's nodes, reported by a quorum of signers
/// @notice Scores arrive in rounds. A report is a list of new nodes and of words, 16 nodes each, signed by more than
/// half of the signers. It names the previous report, and a block whose hash the chain confirms. The network needs no
/// code for it.
/// @dev Parts: oracle/OracleHead (head, digests), oracle/Limits, oracle/Roles (admin, pause), oracle/SignerQuorum
/// (signatures, configuration), oracle/NodeScores (views), oracle/Rounds (push), oracle/Kickouts, oracle/KickCounts
/// (rate limits), oracle/TargetCall, oracle/Lanes (packing), oracle/AsOfBlock (block hashes). Here: the constructor and
/// the setters. There is no proxy: a new oracle has a new address.
contract QoSOracle is Rounds, Kickouts {
    /// @notice Arguments of the constructor.
    /// @param admin sets everything below but floors, expelled and arbitrum; should be a timelock; cannot write scores
    /// @param pauser may pause the oracle for a bounded time, tighten limits and drop signers, zero = none
    /// @param vetoer may cancel kickouts, zero = none
    /// @param target contract that is called to end a membership, zero = none; may have no code yet
    /// @param signers addresses that sign reports and kickouts, 1 to 255
    /// @param quorum number of signatures required, more than half of the signers
    /// @param rulesHash sha256 of the rules' canonical JSON, not 0
    /// @param limits see Limits
    /// @param floors the loosest limits that can ever be set
    /// @param kickLimits see KickLimits; the bucket is full at first
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
        Limits limits;
        Limits floors;
        KickLimits kickLimits;
        address[] expelled;
        bool arbitrum;
    }

    constructor(Setup memory setup)
        OracleHead(setup.arbitrum, setup.limits, setup.floors)
        SignerQuorum(setup.signers, setup.quorum, setup.rulesHash)
        Roles(setup.admin, setup.pauser, setup.vetoer)
        KickCounts(setup.kickLimits)
        Kickouts(setup.target, setup.expelled)
    {}

    /// @notice Replaces the signers. Invalidates all earlier signatures and pending kickouts.
    function setSigners(address[] calldata wanted, uint8 needed) external onlyAdmin {
        _setSigners(wanted, needed);
    }

    /// @notice Drops a signer whose key is lost or stolen; at least a quorum must remain. Invalidates all earlier
    /// signatures and pending kickouts.
    function dropSigner(address who) external onlyPauser {
        _dropSigner(who);
    }

    /// @notice Sets the scoring rules: daemons with other rules stop at once. Invalidates all earlier
    /// signatures and pending kickouts.
    /// @param wanted sha256 of the rules' canonical JSON, not 0
    function setRules(bytes32 wanted) external onlyAdmin {
        _setRules(wanted);
    }

    /// @notice Replaces all limits, within the floors.
    function setLimits(Limits calldata wanted) external onlyAdmin {
        _setLimits(wanted);
    }

    /// @notice Tightens limits, at once: no limit gets looser, anchorWindow does not change, and of the others a
    /// changed minInterval is at most 1 hour, vetoDelay at most 7 days, maxAgeSeconds at least 2 hours.
    function tightenLimits(Limits calldata wanted) external onlyPauser {
        if (!LimitRules.isTightening(wanted, _limits)) revert BadLimits();
        _setLimits(wanted);
    }
}
