"""How sure we are that nothing is missing: what is compared and proven of a window (chain.md 3.9).

A chain's blooms and roots are believed only after they were recomputed (`calibration`); `ladder`
then climbs as high as settings and calibration allow.
"""
