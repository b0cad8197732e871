"""What the native code is compared on."""
