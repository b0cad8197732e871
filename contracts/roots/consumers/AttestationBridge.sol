// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IQoSRoots} from "../IQoSRoots.sol";
import {NodeLeaf, QoSProof} from "../QoSProof.sol";
import {Band, ScoreBands} from "./ScoreBands.sol";

/// @notice The values of an attestation.
/// @param recipient the address that the attestation describes
/// @param expirationTime unix seconds, 0 = never
/// @param refUID another attestation, 0 = none
/// @param data its content, encoded by the schema
/// @param value wei for the schema's resolver
struct AttestationRequestData {
    address recipient;
    uint64 expirationTime;
    bool revocable;
    bytes32 refUID;
    bytes data;
    uint256 value;
}

/// @param schema uid of the schema
struct AttestationRequest {
    bytes32 schema;
    AttestationRequestData data;
}

/// @notice The part of the Ethereum Attestation Service (EAS) that attesters call.
interface IAttestationService {
    /// @dev The service also takes ether for a resolver, which the bridge's schema does not have.
    /// @return uid of the attestation
    function attest(AttestationRequest calldata request) external returns (bytes32 uid);
}

/// @title Example: passes proven scores on to the Ethereum Attestation Service
/// @notice An attester without a key: it attests only what a root proves. Any account submits the leaf of a node; the
/// score is attested if its band differs from the last attested band, so that attestations are not repeated each round.
/// Attestations cannot be revoked, because a newer attestation replaces them.
contract AttestationBridge {
    event ScoreAttested(address indexed node, uint32 round, Band band, bytes32 uid);

    /// @notice The band of the last attestation is the same.
    error SameBand(address node, Band band);

    /// @notice Content of an attestation: the node's lane (QoSProof) in a round, and the root that proves it.
    string public constant SCHEMA = "address node,uint32 round,uint16 lane,bytes32 root";

    /// @notice Uid of the schema, which anyone registers once in the service's registry, without a resolver and not
    /// revocable: `register(SCHEMA, address(0), false)`.
    bytes32 public constant SCHEMA_UID = keccak256(abi.encodePacked(SCHEMA, address(0), false));

    IQoSRoots public immutable ORACLE;
    IAttestationService public immutable SERVICE;

    /// @notice The oracle's LAG, rounds. An attestation cannot be struck, so it is made LAG rounds later.
    uint32 public immutable LAG;

    /// @notice The band of a node's last attestation.
    mapping(address node => Band) public bandOf;

    constructor(IQoSRoots oracle, IAttestationService service) {
        (ORACLE, SERVICE, LAG) = (oracle, service, oracle.LAG());
    }

    /// @notice Attests the score of a node. Anyone may call it.
    /// @param leaf the node's leaf in the round LAG rounds before the last one
    /// @return uid of the attestation
    function attest(NodeLeaf calldata leaf, bytes32[] calldata proof) external returns (bytes32 uid) {
        (uint32 round, bytes32 root) = ScoreBands.requireLaggedLeaf(ORACLE, LAG, leaf, proof);
        Band band = ScoreBands.bandFor(leaf);
        if (bandOf[leaf.node] == band) revert SameBand(leaf.node, band);
        bandOf[leaf.node] = band;
        uid = SERVICE.attest(
            AttestationRequest(
                SCHEMA_UID,
                AttestationRequestData({
                    recipient: leaf.node,
                    expirationTime: 0,
                    revocable: false,
                    refUID: 0,
                    data: abi.encode(leaf.node, round, QoSProof.laneOf(leaf), root),
                    value: 0
                })
            )
        );
        emit ScoreAttested(leaf.node, round, band, uid);
    }
}
