"""The settings of search by likeness: which model makes vectors, and where they are kept."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from core.providers.embeddings import EmbeddingSettings

MINILM = "minilm"
OFF = "off"


def _name(value: object) -> object:
    plain = value.strip() if isinstance(value, str) else value
    return plain.lower() if isinstance(plain, str) and plain.lower() in (MINILM, OFF) else plain


def _url(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url):
        raise ValueError("must start with http:// or https:// and hold no password")
    return url


class SearchSettings(BaseModel):
    """What an operator chooses about vectors. `entries`: the `[[embeddings]]` of the file of models."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )

    embeddings: Annotated[str, BeforeValidator(_name)] = Field(
        MINILM,
        min_length=1,
        alias="VOIDBOT_EMBEDDINGS",
        description="minilm, off, or the name of an [[embeddings]] entry in the file that VOIDBOT_MODELS names",
    )
    qdrant_url: Annotated[str, AfterValidator(_url)] | None = Field(
        None, alias="QDRANT_URL", description="http address of a Qdrant server or cluster; empty: vectors in Postgres"
    )
    qdrant_api_key: SecretStr | None = Field(
        None, alias="QDRANT_API_KEY", description="key of that server; empty if it wants none"
    )
    entries: tuple[EmbeddingSettings, ...] = Field((), exclude=True)

    @property
    def off(self) -> bool:
        """Whether search goes by words alone."""
        return self.embeddings == OFF

    @property
    def named(self) -> bool:
        """Whether the operator named the model, so that another one that is read has to give way."""
        return "embeddings" in self.model_fields_set

    def secrets(self) -> tuple[SecretStr, ...]:
        """Return every secret value."""
        keys = (self.qdrant_api_key, *(entry.api_key for entry in self.entries))
        return tuple(key for key in keys if key is not None)

    def wrong(self) -> list[str]:
        """Return one line if no entry has the name, else none."""
        known = [MINILM, OFF, *(entry.name for entry in self.entries)]
        if self.embeddings in known:
            return []
        return [f"VOIDBOT_EMBEDDINGS: no [[embeddings]] entry has this name; set: {', '.join(known)}"]
