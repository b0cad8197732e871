"""The running closed loop: events, draws, answers, judgements and membership."""
