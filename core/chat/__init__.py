"""From a message to a receipt: receive, reply, deliver."""
