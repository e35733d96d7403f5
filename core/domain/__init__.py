"""What is true: pure values and rules, without I/O, clock or chance."""
