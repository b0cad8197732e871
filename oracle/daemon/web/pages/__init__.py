"""The pages at `/`: the data of the read API, rendered as HTML, usable without scripts."""
