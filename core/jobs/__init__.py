"""The worker: claims jobs, runs them, settles them."""
