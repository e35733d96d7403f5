"""What the community said, found again: search under the audience rule."""
