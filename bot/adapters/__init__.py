"""Front ends: translate in, deliver out, map errors."""
