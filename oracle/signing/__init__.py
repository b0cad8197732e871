"""Signing keys and signatures: keystores, KMS, remote signers, EIP-712, verification."""
