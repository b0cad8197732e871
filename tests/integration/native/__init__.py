"""The native code beside the Python code."""
