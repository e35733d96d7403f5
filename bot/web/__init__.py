"""Pages and health over HTTP, on a loopback address by default."""
