"""The layout of drawings: coordinates only, which templates render as SVG."""
