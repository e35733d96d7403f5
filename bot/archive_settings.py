"""The settings of the archive: what an operator lets be kept beyond what administrators switch on room by room."""

from pydantic import BaseModel, ConfigDict, Field

from core.domain.archiving import ArchivePolicy


class ArchiveSettings(BaseModel):
    """What may be archived where no administrator decides."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )

    store_dm: bool = Field(
        False, alias="VOIDBOT_STORE_DM", description="true or false: archive direct messages of who agrees"
    )
    private_threads: bool = Field(
        False,
        alias="VOIDBOT_ARCHIVE_PRIVATE_THREADS",
        description="true or false: private threads are archived where the room that they hang on is",
    )

    @property
    def policy(self) -> ArchivePolicy:
        """What the decision about a message is told."""
        return ArchivePolicy(store_dm=self.store_dm, private_threads=self.private_threads)
