"""What people may see, correct, take along and have erased."""
