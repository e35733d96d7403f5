"""Unattended work: ticks become slots, a slot is claimed once, a run goes phase by phase."""
