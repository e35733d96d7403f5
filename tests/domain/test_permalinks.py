"""Links to messages: an address that opens, or none."""

import pytest

from core.domain.ids import RoomKey
from core.domain.permalinks import permalink

DISCORD, TELEGRAM = "discord", "telegram"


@pytest.mark.parametrize(
    ("platform", "community", "chat", "topic", "ref", "link"),
    [
        (DISCORD, "11", "22", "", "33", "https://discord.com/channels/11/22/33"),
        (DISCORD, "dm:9", "22", "", "33", "https://discord.com/channels/@me/22/33"),
        (DISCORD, "11", "22", "", "own:33", "https://discord.com/channels/11/22/33"),
        (DISCORD, "", "22", "", "33", None),
        (DISCORD, "11", "22", "", "33/../44", None),
        (DISCORD, "11", "22) [x](https://evil.example", "", "33", None),
        (TELEGRAM, "-1001234", "-1001234", "", "33", "https://t.me/c/1234/33"),
        (TELEGRAM, "-1001234", "-1001234", "7", "33", "https://t.me/c/1234/7/33"),
        (TELEGRAM, "-1234", "-1234", "", "33", None),
        (TELEGRAM, "1234", "1234", "", "33", None),
        (TELEGRAM, "-1001234", "-1001234", "", "-1001234/33", None),
        (TELEGRAM, "-1001234", "-1001234", "", "٣", None),
        ("console", "console", "22", "", "33", None),
        ("import", "11", "22", "", "33", None),
    ],
)
def test_a_message_has_the_address_of_its_platform(
    platform: str, community: str, chat: str, topic: str, ref: str, link: str | None
) -> None:
    assert permalink(platform, community, RoomKey(platform, chat, topic), ref) == link
