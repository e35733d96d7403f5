"""Where it is kept: SQL, one module an owner, one place that commits."""
