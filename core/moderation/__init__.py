"""A moderator's assistant: breaches of rules are found, shown to the staff, and acted on only as far as allowed."""
