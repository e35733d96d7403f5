"""Links to messages and to lines of files: an address that opens, or none."""

import pytest

from core.domain.ids import RoomKey
from core.domain.permalinks import file_link, permalink

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


HEAD = "1f0c2ab" + "0" * 33


@pytest.mark.parametrize(
    ("location", "path", "link"),
    [
        ("https://github.com/a/b.git", "src/x y.py", f"https://github.com/a/b/blob/{HEAD}/src/x%20y.py#L3-L9"),
        ("https://github.com/a/b/", "README.md", f"https://github.com/a/b/blob/{HEAD}/README.md?plain=1#L3-L9"),
        ("https://gitlab.com/g/s/b", "a.go", f"https://gitlab.com/g/s/b/-/blob/{HEAD}/a.go#L3-9"),
        (
            "https://codeberg.org/a/b.git",
            "a.rst",
            f"https://codeberg.org/a/b/src/commit/{HEAD}/a.rst?display=source#L3-L9",
        ),
        ("https://bitbucket.org/a/b", "#.py", f"https://bitbucket.org/a/b/src/{HEAD}/%23.py#lines-3:9"),
        ("https://git.sr.ht/~a/b", "a.py", f"https://git.sr.ht/~a/b/tree/{HEAD}/item/a.py#L3-9"),
        ("https://git.example.org/a/b", "a.py", None),
        ("https://github.com.example.org/a/b", "a.py", None),
        ("https://github.com:444/a/b", "a.py", None),
        ("http://github.com/a/b", "a.py", None),
        ("/srv/github.com/a/b", "a.py", None),
    ],
)
def test_lines_of_a_file_open_at_their_commit_or_nowhere(location: str, path: str, link: str | None) -> None:
    assert file_link(location, HEAD, path, 3, 9) == link
    assert file_link(location, "HEAD", path, 3, 9) is None
