"""A network in which selection feeds back: draws, answers, money, scores, kickouts."""
