"""Keys and signatures: keystore, KMS, remote signer, EIP-712; what comes back is checked."""
