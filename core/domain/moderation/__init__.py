"""Moderation as values: rules, what detectors find, cases, what is done to members, and how a rule has fared. Pure."""
