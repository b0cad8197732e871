"""Inputs on which the native code is compared with the Python code."""
