"""Signing keys and signatures: keystore, KMS, remote signer, EIP-712, signature verification."""
