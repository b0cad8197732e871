// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "../QoSProof.sol";
import {Band, ScoreBands} from "./ScoreBands.sol";

/// @notice The part of an ERC-8004 reputation registry that reviewers call. The standard is a draft; earlier versions had
/// another signature.
interface IReputationRegistry {
    /// @param agentId number of the agent in the identity registry
    /// @param value the score, with `valueDecimals` decimals
    /// @param feedbackHash hash of what the feedback is based on
    function giveFeedback(
        uint256 agentId,
        int128 value,
        uint8 valueDecimals,
        string calldata tag1,
        string calldata tag2,
        string calldata endpoint,
        string calldata feedbackURI,
        bytes32 feedbackHash
    ) external;
}

/// @notice The part of the ERC-8004 identity registry, an ERC-721, that this bridge calls.
interface IAgentRegistry {
    function ownerOf(uint256 agentId) external view returns (address);
}

/// @title Example: passes proven scores on to a reputation registry (ERC-8004)
/// @notice A reviewer without a key: it gives only feedback that a root proves. Any account submits the leaf of an
/// agent's owner; the score is passed on if its band differs from the last one, so that feedback is not repeated each
/// round.
contract ReputationBridge {
    event FeedbackGiven(uint256 indexed agentId, address indexed node, uint32 round, Band band);

    /// @notice The agent is not owned by the node of the leaf.
    error NotOwner(uint256 agentId, address node);
    /// @notice The band of the last feedback is the same.
    error SameBand(uint256 agentId, Band band);

    IQoSRoots public immutable ORACLE;
    IReputationRegistry public immutable REPUTATION;
    IAgentRegistry public immutable AGENTS;

    /// @notice The oracle's LAG, rounds. Feedback cannot be struck, so it is given LAG rounds later.
    uint32 public immutable LAG;

    /// @notice The band of the feedback that was given last.
    mapping(uint256 agentId => Band) public bandOf;

    constructor(IQoSRoots oracle, IReputationRegistry reputation, IAgentRegistry agents) {
        (ORACLE, REPUTATION, AGENTS, LAG) = (oracle, reputation, agents, oracle.LAG());
    }

    /// @notice Gives feedback on an agent: its QoS in percent, 0 also if it must not be selected. Anyone may call it.
    /// @param agentId an agent that the node owns
    /// @param leaf the node's leaf in the round LAG rounds before the last one
    function giveFeedback(uint256 agentId, NodeLeaf calldata leaf, bytes32[] calldata proof) external {
        if (AGENTS.ownerOf(agentId) != leaf.node) revert NotOwner(agentId, leaf.node);
        (uint32 round, bytes32 root) = ScoreBands.requireLaggedLeaf(ORACLE, LAG, leaf, proof);
        Band band = ScoreBands.bandFor(leaf);
        if (bandOf[agentId] == band) revert SameBand(agentId, band);
        bandOf[agentId] = band;
        emit FeedbackGiven(agentId, leaf.node, round, band);
        int128 percent = int128(uint128(QoSProof.qosOf(leaf) / 100));
        REPUTATION.giveFeedback(agentId, percent, 0, "qos", "compute", "", "", root);
    }
}
