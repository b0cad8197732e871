"""A local network for development and demos.

Only the command line imports this package.
"""
