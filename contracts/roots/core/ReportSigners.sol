// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {RoundHead} from "./RoundHead.sol";

/// @title Signers, quorum, and the hash of the scoring rules
/// @notice EIP-712, domain name "QoSOracle", version "3", this chain, this contract; eip712Domain() returns it
/// (ERC-5267). More than half of the signers must sign. Signers hold no ether and send nothing; senders have no rights.
/// A signer is a key, not a contract (EIP-1271): the gas of a signature must be bounded.
/// @dev A report names the digest of the configuration (chain, contract, counter, signers, quorum, rules). Each change
/// makes a new digest, even if the same signers come back: earlier signatures are invalid.
abstract contract ReportSigners is RoundHead, EIP712 {
    /// @dev A signature: r (32 bytes), s (32 bytes), v (1 byte, 27 or 28).
    uint256 private constant SIGNATURE_BYTES = 65;

    /// @dev Half of the curve's order. For each signature with s another with order - s is valid; only the lower s is
    /// accepted, so that a signature has one form.
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    address[] private _signers;
    mapping(address => uint256) private _bitOf;

    /// @notice Hash of the scoring rules: sha256 of their canonical JSON.
    bytes32 public rulesHash;

    /// @notice Digest of the current configuration, which reports name. keccak256(abi.encode(uint256 chain id, address
    /// this, uint16 count, address[] signers, uint8 quorum, bytes32 rulesHash))
    bytes32 public configDigest;

    /// @notice These signers sign reports from now on, as many of them as `quorum` for each; see ConfigSet.
    event SignersSet(address[] signers, uint8 quorum);
    /// @notice Reports are computed by these scoring rules from now on; see ConfigSet.
    event RulesSet(bytes32 rulesHash);
    /// @notice Reports must name `config` from now on; `count` is one more than for the previous configuration.
    event ConfigSet(uint16 indexed count, bytes32 config);

    /// @notice No signer, more than 255, a zero, repeated or unknown address, or a quorum of half or fewer, or of more
    /// than all.
    error BadSigners();
    /// @notice The hash of the rules is 0.
    error BadRules();
    /// @notice The number of signatures is not the quorum, or their length is not 65 bytes each.
    error BadSignatureLength(uint256 expected, uint256 got);
    /// @notice The signature at `position` is not by a signer, by one that signed already, or not in the accepted form:
    /// 65 bytes r, s, v with the lower s and a v of 27 or 28 (neither 0 or 1 nor the short form of EIP-2098).
    error BadSignature(uint256 position);

    constructor(address[] memory wanted, uint8 needed, bytes32 rules) EIP712("QoSOracle", "3") {
        _replaceSigners(wanted, needed);
        _nameRules(rules);
        _renewConfig();
    }

    /// @notice Returns the signers; bit i of a round's bitmap is the i-th of them.
    function signers() external view returns (address[] memory) {
        return _signers;
    }

    function _setSigners(address[] memory wanted, uint8 needed) internal {
        _replaceSigners(wanted, needed);
        _renewConfig();
    }

    /// @dev The others keep their order. Reverts with BadSigners if fewer signers than the quorum remain.
    function _dropSigner(address who) internal {
        address[] memory before = _signers;
        if (_bitOf[who] == 0) revert BadSigners();
        address[] memory left = new address[](before.length - 1);
        uint256 kept = 0;
        for (uint256 i; i < before.length; ++i) {
            if (before[i] != who) left[kept++] = before[i];
        }
        _setSigners(left, _head.quorum);
    }

    function _setRules(bytes32 wanted) internal {
        _nameRules(wanted);
        _renewConfig();
    }

    /// @dev Reverts unless `signatures` are `needed` valid signatures by different signers.
    /// @return seen bitmap of the signers whose signatures were found
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
            // ecrecover returns 0 for an invalid signature (a v other than 27 and 28 too); 0 is never a signer.
            uint256 bit = _bitOf[ecrecover(digest, uint8(signatures[start + 64]), r, s)];
            if (bit == 0 || seen & bit != 0) revert BadSignature(i);
            seen |= bit;
        }
    }

    function _replaceSigners(address[] memory wanted, uint8 needed) private {
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
        emit SignersSet(wanted, needed);
    }

    function _nameRules(bytes32 wanted) private {
        if (wanted == 0) revert BadRules();
        rulesHash = wanted;
        emit RulesSet(wanted);
    }

    function _renewConfig() private {
        uint16 count = _head.configCount + 1;
        _head.configCount = count;
        configDigest =
            keccak256(abi.encode(block.chainid, address(this), count, _signers, _head.quorum, rulesHash));
        emit ConfigSet(count, configDigest);
    }
}
