"""Readers of export files: from a byte stream to records, in constant memory, whatever is broken."""
