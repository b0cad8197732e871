// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {KickCounts} from "./oracle/KickCounts.sol";
import {Kickouts} from "./oracle/Kickouts.sol";
import {LimitRules, Limits} from "./oracle/Limits.sol";
import {OracleHead} from "./oracle/OracleHead.sol";
import {Roles} from "./oracle/Roles.sol";
import {Rounds} from "./oracle/Rounds.sol";
import {SignerQuorum} from "./oracle/SignerQuorum.sol";

/// @title Quality-of-service scores of a network's nodes, reported by a quorum of signers
/// @notice Scores come in rounds. A report is a list of new nodes and of words, 16 nodes each, signed by more than half
/// of the signers, built on the report before it, and true for one block whose hash the chain itself confirms. The
/// network needs to know nothing of it.
/// @dev Where what lives: oracle/OracleHead (head, digests), oracle/Limits, oracle/Roles (admin, pause),
/// oracle/SignerQuorum (signatures, configuration), oracle/NodeScores (what consumers read), oracle/Rounds (push),
/// oracle/Kickouts, oracle/KickCounts (how many), oracle/TargetCall, oracle/Lanes (packing), oracle/AsOfBlock (block
/// hashes). Here: how it starts, and who may change what. There is no proxy: a new oracle is a new address.
contract QoSOracle is Rounds, Kickouts {
    /// @notice How an oracle starts.
    /// @param admin sets everything below but floors, expelled and arbitrum; should be a timelock; cannot write scores
    /// @param pauser may stop rounds for a bounded time, tighten limits and drop signers, zero = nobody
    /// @param vetoer may cancel kickouts, zero = nobody
    /// @param target who is told to end a membership, zero = nobody; may have no code yet
    /// @param signers who signs reports and kickouts, 1 to 255
    /// @param quorum how many of them must, more than half
    /// @param rulesHash sha256 of the rules' canonical JSON, not 0
    /// @param limits see Limits
    /// @param floors the loosest limits that can ever be set
    /// @param kickLimits see KickLimits; the bucket is full at first
    /// @param expelled whom the oracle before this one had expelled
    /// @param arbitrum this is an Arbitrum chain
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

    /// @notice Replaces the signers. Whatever the old ones signed dies, pending kickouts too.
    function setSigners(address[] calldata wanted, uint8 needed) external onlyAdmin {
        _setSigners(wanted, needed);
    }

    /// @notice Drops a signer whose key is lost or stolen; as many as the quorum stay. Whatever was signed dies, pending
    /// kickouts too.
    function dropSigner(address who) external onlyPauser {
        _dropSigner(who);
    }

    /// @notice Names new scoring rules: daemons with others stop at once, whatever was signed dies.
    /// @param wanted sha256 of the rules' canonical JSON, not 0
    function setRules(bytes32 wanted) external onlyAdmin {
        _setRules(wanted);
    }

    /// @notice Replaces every limit, within the floors.
    function setLimits(Limits calldata wanted) external onlyAdmin {
        _setLimits(wanted);
    }

    /// @notice Replaces limits by tighter ones, at once: no field gives more room than now, minInterval stays within an
    /// hour, vetoDelay within 7 days, maxAgeSeconds at 2 hours or more, and anchorWindow as it is.
    function tightenLimits(Limits calldata wanted) external onlyPauser {
        if (!LimitRules.isTightening(wanted, _limits)) revert BadLimits();
        _setLimits(wanted);
    }
}
