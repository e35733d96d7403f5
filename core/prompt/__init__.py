"""The one place where a model request is made."""
