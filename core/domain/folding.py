"""Text folded for comparison: small letters without accents, as people type who are in a hurry. Pure."""

import unicodedata


def folded(text: str) -> str:
    """Return `text` in small letters without accents; й becomes и, ß ss, and wide forms plain ones."""
    if text.isascii():
        return text.lower()
    # Folding may compose anew, and what is composed may fold again: twice is enough for every character.
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(each for each in apart if not unicodedata.combining(each))
