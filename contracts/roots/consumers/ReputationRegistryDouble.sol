// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IAgentRegistry, IReputationRegistry} from "./ReputationBridge.sol";

/// @title Stand-in for the two registries of ERC-8004, to test ReputationBridge
/// @notice Stores what they store for an agent and for a feedback. Left out: transfers, revocations, responses.
contract ReputationRegistryDouble is IAgentRegistry, IReputationRegistry {
    struct Feedback {
        int128 value;
        uint8 valueDecimals;
        bool isRevoked;
        string tag1;
        string tag2;
    }

    event NewFeedback(
        uint256 indexed agentId,
        address indexed client,
        uint64 index,
        int128 value,
        uint8 valueDecimals,
        string indexed indexedTag1,
        string tag1,
        string tag2,
        string endpoint,
        string feedbackURI,
        bytes32 feedbackHash
    );

    /// @notice An owner gives no feedback on its own agent.
    error OwnFeedback(uint256 agentId);
    /// @notice The agent exists, or its owner is zero.
    error BadAgent(uint256 agentId);

    mapping(uint256 agentId => address) public ownerOf;
    mapping(uint256 agentId => mapping(address client => uint64)) public lastIndex;
    mapping(uint256 agentId => mapping(address client => mapping(uint64 index => Feedback))) public feedbackOf;
    mapping(uint256 agentId => address[]) private _clients;

    function register(uint256 agentId, address owner) external {
        if (owner == address(0) || ownerOf[agentId] != address(0)) revert BadAgent(agentId);
        ownerOf[agentId] = owner;
    }

    /// @inheritdoc IReputationRegistry
    function giveFeedback(
        uint256 agentId,
        int128 value,
        uint8 valueDecimals,
        string calldata tag1,
        string calldata tag2,
        string calldata endpoint,
        string calldata feedbackURI,
        bytes32 feedbackHash
    ) external {
        if (msg.sender == ownerOf[agentId]) revert OwnFeedback(agentId);
        uint64 index = ++lastIndex[agentId][msg.sender];
        if (index == 1) _clients[agentId].push(msg.sender);
        feedbackOf[agentId][msg.sender][index] = Feedback(value, valueDecimals, false, tag1, tag2);
        emit NewFeedback(
            agentId, msg.sender, index, value, valueDecimals, tag1, tag1, tag2, endpoint, feedbackURI, feedbackHash
        );
    }

    /// @notice Returns who has given feedback on an agent.
    function getClients(uint256 agentId) external view returns (address[] memory) {
        return _clients[agentId];
    }
}
