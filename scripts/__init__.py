"""What is run by hand in the project folder; nothing of the product imports it."""
