"""Front ends through the real libraries, against the doubles of their platforms."""
