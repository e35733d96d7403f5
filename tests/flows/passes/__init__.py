"""Unattended work as a whole: each pass from its slot to what it leaves behind."""
