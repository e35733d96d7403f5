"""The mind's private self as values: typed entries, the view that operations see, and the facts from outside."""
