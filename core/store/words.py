"""Words as Postgres can hold them."""


def clean(text: str) -> str:
    """Return `text` as Postgres can hold it: no NUL, broken surrogates replaced."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
