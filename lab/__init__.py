"""The lab: backtests and attack simulations.

Only the command line imports this package.
"""
