"""Front ends, commands, page, settings and the composition root."""
