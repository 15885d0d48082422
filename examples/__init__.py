"""Examples; each one runs by itself: `python -m examples.quickstart`."""
