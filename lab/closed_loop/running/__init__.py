"""The parts of a running closed loop: draws, answers, judgements, membership and more."""
