// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AttestationRequest, AttestationRequestData, IAttestationService} from "./AttestationBridge.sol";

/// @title Stand-in for the Ethereum Attestation Service and its registry of schemas, to test AttestationBridge
/// @notice Stores what they store for a schema without a resolver and for an attestation, and gives them the same uids.
/// Left out: resolvers, revocations, delegated attestations, payments.
contract AttestationServiceDouble is IAttestationService {
    /// @param isRegistered whether the schema exists
    /// @param revocable whether its attestations may be revoked
    struct Schema {
        bool isRegistered;
        bool revocable;
        string text;
    }

    struct Attestation {
        bytes32 uid;
        bytes32 schema;
        uint64 time;
        uint64 expirationTime;
        uint64 revocationTime;
        bytes32 refUID;
        address recipient;
        address attester;
        bool revocable;
        bytes data;
    }

    event Registered(bytes32 indexed uid, address indexed registerer);
    event Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);

    error AlreadyExists();
    error InvalidSchema();
    error InvalidExpirationTime();
    error Irrevocable();
    error NotFound();
    error NotPayable();

    mapping(bytes32 uid => Schema) public schemas;
    mapping(bytes32 uid => Attestation) private _attestations;

    /// @notice Registers a schema. The resolver must be zero.
    function register(string calldata schema, address resolver, bool revocable) external returns (bytes32 uid) {
        uid = keccak256(abi.encodePacked(schema, resolver, revocable));
        if (resolver != address(0)) revert InvalidSchema();
        if (schemas[uid].isRegistered) revert AlreadyExists();
        schemas[uid] = Schema(true, revocable, schema);
        emit Registered(uid, msg.sender);
    }

    /// @inheritdoc IAttestationService
    function attest(AttestationRequest calldata request) external returns (bytes32 uid) {
        Schema storage schema = schemas[request.schema];
        AttestationRequestData calldata data = request.data;
        if (!schema.isRegistered) revert InvalidSchema();
        if (data.expirationTime != 0 && data.expirationTime <= block.timestamp) revert InvalidExpirationTime();
        if (data.revocable && !schema.revocable) revert Irrevocable();
        if (data.refUID != 0 && _attestations[data.refUID].uid == 0) revert NotFound();
        if (data.value != 0) revert NotPayable();
        uid = _freeUid(request);
        _attestations[uid] = Attestation(
            uid,
            request.schema,
            uint64(block.timestamp),
            data.expirationTime,
            0,
            data.refUID,
            data.recipient,
            msg.sender,
            data.revocable,
            data.data
        );
        emit Attested(data.recipient, msg.sender, uid, request.schema);
    }

    /// @notice Returns an attestation; its uid is 0 if there is none.
    function getAttestation(bytes32 uid) external view returns (Attestation memory) {
        return _attestations[uid];
    }

    /// @dev A counter makes equal attestations of one block differ, as at the service.
    function _freeUid(AttestationRequest calldata request) private view returns (bytes32 uid) {
        AttestationRequestData calldata data = request.data;
        for (uint32 bump;; ++bump) {
            uid = keccak256(
                abi.encodePacked(
                    request.schema,
                    data.recipient,
                    msg.sender,
                    uint64(block.timestamp),
                    data.expirationTime,
                    data.revocable,
                    data.refUID,
                    data.data,
                    bump
                )
            );
            if (_attestations[uid].uid == 0) return uid;
        }
    }
}
