"""The fast lane: detectors in code, run at intake on every message that can be seen in a watched room."""
