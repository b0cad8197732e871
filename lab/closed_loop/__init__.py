"""A simulated network with feedback: draws, answers, money, scores and kickouts."""
