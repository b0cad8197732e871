// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IQoSRoots} from "./IQoSRoots.sol";

/// @notice What a node signs.
/// @param node the node's address
/// @param dueSince the kickout to which it objects: the time since which it is due, unix seconds, as its leaf states
/// @param reason 0 other, 1 events that are not on the chain, 2 the application's fault, 3 an outage of the network,
/// 4 one creator against the node, 5 rules applied wrongly
/// @param words an explanation in at most MAX_WORDS bytes, which may be empty
/// @param seq the node's next number, `nextSeq`; a signature counts once
/// @param deadline unix seconds; last block time that may include it
struct Objection {
    address node;
    uint40 dueSince;
    uint8 reason;
    string words;
    uint32 seq;
    uint40 deadline;
}

/// @title Objections of nodes to their kickouts
/// @notice Optional. The contract has no roles and no power, because no contract reads it. An objection is an event, so
/// all reporters and the vetoer see the same objections in the same order. The contract holds no ether; it stores one
/// number for each node.
contract Objections is EIP712 {
    /// @notice A node objected to a kickout. The words come from an untrusted account, and may be any bytes.
    event Objected(address indexed node, uint40 indexed dueSince, uint8 reason, uint32 seq, string words);

    /// @notice The words are longer than MAX_WORDS bytes.
    error WordsTooLong(uint256 length);
    /// @notice The block is later than the deadline.
    error ObjectionExpired(uint256 deadline);
    /// @notice The node's next objection has another number: this one was already made, or one before it is missing.
    error WrongSeq(uint32 expected);
    /// @notice The node, or its contract (ERC-1271), did not sign this objection.
    error NotSignedByNode(address node);

    /// @notice Maximum length of the words, bytes.
    uint256 public constant MAX_WORDS = 280;

    /// @dev Gas limit of the ERC-1271 check, so that the node's contract cannot burn all of the sender's gas.
    uint256 private constant CHECK_GAS = 100_000;

    /// @dev Half of the order of secp256k1: each signature has one form, that with the lower s.
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    bytes32 private constant OBJECTION = keccak256(
        "Objection(address node,uint40 dueSince,uint8 reason,string words,uint32 seq,uint40 deadline)"
    );

    /// @notice The oracle to whose kickouts nodes object.
    IQoSRoots public immutable ORACLE;

    /// @notice The number of each node's next objection.
    mapping(address node => uint32) public nextSeq;

    /// @param oracle the oracle to whose kickouts nodes object
    constructor(IQoSRoots oracle) EIP712("QoSObjections", "1") {
        ORACLE = oracle;
    }

    /// @notice Objects as the calling node, without a signature. No other account can prevent it.
    /// @param dueSince see Objection
    /// @param reason see Objection
    /// @param words see Objection
    function object(uint40 dueSince, uint8 reason, string calldata words) external {
        _emit(msg.sender, dueSince, reason, nextSeq[msg.sender]++, words);
    }

    /// @notice Submits an objection that a node signed. Any account may call it, and pays the gas.
    /// @param signature 65 bytes (r, s, v), or what the node's contract accepts (ERC-1271)
    function objectFor(Objection calldata objection, bytes calldata signature) external {
        address node = objection.node;
        uint32 expected = nextSeq[node];
        if (block.timestamp > objection.deadline) revert ObjectionExpired(objection.deadline);
        if (objection.seq != expected) revert WrongSeq(expected);
        nextSeq[node] = expected + 1;
        if (!_isSignedBy(node, objectionDigest(objection), signature)) revert NotSignedByNode(node);
        _emit(node, objection.dueSince, objection.reason, expected, objection.words);
    }

    /// @notice Returns the EIP-712 digest to sign.
    function objectionDigest(Objection calldata objection) public view returns (bytes32) {
        return _hashTypedDataV4(
            keccak256(
                abi.encode(
                    OBJECTION,
                    objection.node,
                    objection.dueSince,
                    objection.reason,
                    keccak256(bytes(objection.words)),
                    objection.seq,
                    objection.deadline
                )
            )
        );
    }

    function _emit(address node, uint40 dueSince, uint8 reason, uint32 seq, string calldata words) private {
        if (bytes(words).length > MAX_WORDS) revert WordsTooLong(bytes(words).length);
        emit Objected(node, dueSince, reason, seq, words);
    }

    /// @dev An account with code (EIP-7702) may still sign with its key.
    function _isSignedBy(address node, bytes32 digest, bytes calldata signature) private view returns (bool) {
        return (node.code.length != 0 && _acceptsSignature(node, digest, signature))
            || _isSignedByKey(node, digest, signature);
    }

    function _acceptsSignature(address node, bytes32 digest, bytes calldata signature)
        private
        view
        returns (bool accepted)
    {
        bytes memory input = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        bytes32 expected = bytes32(IERC1271.isValidSignature.selector);
        assembly ("memory-safe") {
            mstore(0, 0)
            let done := staticcall(CHECK_GAS, node, add(input, 32), mload(input), 0, 32)
            accepted := and(and(done, gt(returndatasize(), 31)), eq(mload(0), expected))
        }
    }

    function _isSignedByKey(address node, bytes32 digest, bytes calldata signature) private pure returns (bool) {
        if (signature.length != 65 || uint256(bytes32(signature[32:64])) > HALF_ORDER) return false;
        // ecrecover returns 0 for an invalid signature.
        address signer =
            ecrecover(digest, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64]));
        return signer != address(0) && signer == node;
    }
}
