"""The page `/`: what the read API answers, rendered for people, with and without scripts."""
