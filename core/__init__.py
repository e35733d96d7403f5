"""What VoidBot is, apart from any platform."""
