"""Tests of the native code in a separate Python."""
