"""The only ways to change the mind: each a typed proposal with a pure check and a pure effect."""
