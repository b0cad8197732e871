"""The parts of a running closed loop, such as draws, answers, judgements and membership."""
