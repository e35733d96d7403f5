"""Models and what stands in for them, behind the ModelProvider port."""
