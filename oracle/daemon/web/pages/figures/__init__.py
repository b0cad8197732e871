"""Where the parts of drawings lie: numbers only, which templates write down as SVG."""
