"""The passes, one file each: what each of their phases does."""
