"""How far a window is proven: calibration, header checks, blooms, receipts."""
