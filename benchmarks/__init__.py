"""How fast and how heavy VoidBot is; each module prints one JSON line. Run as `python -m benchmarks.NAME`."""
