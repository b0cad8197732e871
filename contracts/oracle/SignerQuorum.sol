// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {OracleHead} from "./OracleHead.sol";

/// @title The signers of reports and kickouts, and how many of them must agree
/// @notice EIP-712, domain name "QoSOracle", version "1", this chain, this contract. More than half of the signers
/// must sign. Signers hold no ether and send nothing; whoever sends has no rights.
abstract contract SignerQuorum is OracleHead {
    /// @dev A signature: r (32 bytes), s (32 bytes), v (1 byte, 27 or 28).
    uint256 private constant SIGNATURE_BYTES = 65;

    /// @dev Half of the curve's order. For each signature with s there is a second one with order - s; only the
    /// lower is taken, so that a signature has one form.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME = keccak256("QoSOracle");
    bytes32 private constant VERSION = keccak256("1");

    address[] private _signers;
    mapping(address => uint256) private _bitOf;

    event SignersSet(address[] signers, uint8 quorum);

    /// @notice No signer, more than 255, a zero or repeated address, or a quorum of half or fewer, or of more than all.
    error BadSigners();
    /// @notice There must be exactly as many signatures as the quorum asks, 65 bytes each.
    error BadSignatureLength(uint256 expected, uint256 got);
    /// @notice The signature at `position` is by no signer, by one who signed already, or not in the lower form.
    error BadSignature(uint256 position);

    /// @notice The signers; bit i of a round's bitmap is the i-th of them.
    function signers() external view returns (address[] memory) {
        return _signers;
    }

    /// @notice How many signatures a report or a kickout needs.
    function quorum() external view returns (uint8) {
        return _head.quorum;
    }

    /// @notice EIP-712 domain separator; computed each time, so that a fork of the chain with a new id has its own.
    function domainSeparator() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, NAME, VERSION, block.chainid, address(this)));
    }

    function _setSigners(address[] memory wanted, uint8 needed) internal {
        uint256 count = wanted.length;
        if (count == 0 || count > 255 || needed > count || 2 * uint256(needed) <= count) revert BadSigners();
        uint256 before = _signers.length;
        for (uint256 i; i < before; ++i) {
            delete _bitOf[_signers[i]];
        }
        for (uint256 i; i < count; ++i) {
            address signer = wanted[i];
            if (signer == address(0) || _bitOf[signer] != 0) revert BadSigners();
            _bitOf[signer] = 1 << i;
        }
        _signers = wanted;
        _head.quorum = needed;
        _head.signerCount = uint8(count);
        emit SignersSet(wanted, needed);
    }

    function _digestOf(bytes32 structHash) internal view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", domainSeparator(), structHash));
    }

    /// @dev Reverts unless `signatures` are `needed` good ones by as many signers.
    /// @return seen bitmap of who signed
    function _checkSignatures(bytes32 digest, uint256 needed, bytes calldata signatures)
        internal
        view
        returns (uint256 seen)
    {
        if (signatures.length != needed * SIGNATURE_BYTES) {
            revert BadSignatureLength(needed * SIGNATURE_BYTES, signatures.length);
        }
        for (uint256 i; i < needed; ++i) {
            uint256 start = i * SIGNATURE_BYTES;
            bytes32 r = bytes32(signatures[start:start + 32]);
            bytes32 s = bytes32(signatures[start + 32:start + 64]);
            if (uint256(s) > HALF_ORDER) revert BadSignature(i);
            // ecrecover answers 0 for nonsense (a v other than 27 and 28 too); 0 is never a signer.
            uint256 bit = _bitOf[ecrecover(digest, uint8(signatures[start + 64]), r, s)];
            if (bit == 0 || seen & bit != 0) revert BadSignature(i);
            seen |= bit;
        }
    }
}
