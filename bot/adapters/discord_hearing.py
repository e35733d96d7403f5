"""What Discord says, brought to its place: messages to `accept`, all else to the memory of platforms."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import discord

from bot.adapters.discord_catchup import COMPARED, CatchUp
from bot.adapters.discord_commands import COMMAND, COMPONENT, choice_of, is_private, to_command, to_press
from bot.adapters.discord_files import Files
from bot.adapters.discord_gateway import Connection, Ear
from bot.adapters.discord_intake import (
    PASTE_LIMIT_BYTES,
    PLATFORM,
    Ignored,
    Place,
    Us,
    Why,
    gone,
    noted,
    paste_of,
    to_inbound,
)
from bot.adapters.discord_lanes import Lanes
from bot.adapters.discord_natives import Natives
from bot.adapters.discord_payload import Payload, number, part, parts, ref, text, time_of, words
from bot.adapters.discord_reactions import CHANGES, to_reaction
from bot.adapters.discord_rest import ANY_FAILURE
from bot.adapters.discord_rooms import (
    Room,
    key_of,
    may_read_back,
    member_report,
    one_member,
    place_of,
    report_of,
    rooms_of,
    told_one_by_one,
)
from bot.adapters.discord_sending import Sender
from core.domain.catchup import answered_of
from core.domain.messages import InboundMessage
from core.domain.platforms import LastHeard
from core.domain.rooms import RoomKind
from core.domain.speech import SilenceReason
from core.ports import Accept, Clock, CommandForm, PlatformMemory

_LOG = logging.getLogger(__name__)
_ROOMS_CHANGED = frozenset(
    {
        "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE",
        "THREAD_LIST_SYNC", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "GUILD_UPDATE",
    }
)  # fmt: skip


class Hearing(Ear):
    """The ear of a connection. Nothing in it waits: what has to wait goes into the lane of its room or community.

    `counts`: what was ignored, skipped or refused, by reason.
    """

    def __init__(
        self,
        accept: Accept,
        memory: PlatformMemory,
        lanes: Lanes,
        catch_up: CatchUp,
        files: Files,
        sender: Sender,
        clock: Clock,
        forms: Sequence[CommandForm],
        natives: Natives,
    ) -> None:
        self._accept, self._memory, self._lanes, self._catch_up = accept, memory, lanes, catch_up
        self._files, self._sender, self._clock, self._forms = files, sender, clock, forms
        self._natives = natives
        self._us: Us | None = None
        self._connection: Connection | None = None
        self.counts: Counter[str] = Counter()
        self._dirty: set[str] = set()
        # Closed from a new session until it is known what was stored last: a newer message would hide the gap.
        self._open = asyncio.Event()
        self._heard: Sequence[LastHeard] = ()
        self._began = clock.now()

    def meet(self, us: Us, connection: Connection) -> None:
        """Learn who we are, and which connection says how much of messages we are given."""
        self._us, self._connection = us, connection

    def _who(self) -> Us | None:
        if self._us is None or self._connection is None:
            return None
        return replace(self._us, sees_text=self._connection.sees_text)

    def before(self, event: str, data: Payload, client: discord.Client) -> None:
        """Take messages and interactions in; they need nothing of what the cache may make of them."""
        match event:
            case "READY":
                self._began = self._clock.now()
                self._catch_up.start_over()
                self._open.clear()
                communities = [ref(guild, "id") for guild in parts(data, "guilds")]
                self._lanes.put("session", partial(self._look_back, communities))
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE":
                self._take(event, data, place_of(data, client))
            case "MESSAGE_DELETE_BULK":
                first, *others = [*words(data, "ids"), ""]
                bulk = {**data, "id": first, "also": [each for each in others if each]}
                self._take("MESSAGE_DELETE", bulk, place_of(data, client))
            case _ if event in CHANGES:
                place = place_of(data, client)
                self._lanes.put(ref(data, "channel_id"), partial(self._react, event, data, place))
            case "INTERACTION_CREATE" if number(data, "type") == COMMAND:
                # Acknowledged on a task of its own: it waits for no lane, no lock and no store.
                interaction = discord.Interaction(data=data, state=client._connection)  # type: ignore[arg-type]  # the wire's own form
                self._lanes.aside(partial(self._acknowledge, interaction, data, place_of(data, client)))
            case "INTERACTION_CREATE" if number(data, "type") == COMPONENT:
                interaction = discord.Interaction(data=data, state=client._connection)  # type: ignore[arg-type]  # the wire's own form
                self._lanes.aside(partial(self._press, interaction, data, place_of(data, client)))
            case "GUILD_DELETE" if data.get("unavailable") is not True:
                community = ref(data, "id")
                self._lanes.put(f"community:{community}", lambda: self._memory.forget_community(PLATFORM, community))
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                key = key_of(ref(data, "id"))
                self._lanes.put(key.chat_ref, lambda: self._memory.forget_room(key))
            case _:
                pass

    def after(self, event: str, data: Payload, client: discord.Client) -> None:
        """Bring the memory to what the cache now says."""
        guild = client.get_guild(number(data, "guild_id") or (number(data, "id") if event == "GUILD_UPDATE" else 0))
        if guild is None:
            return
        match event:
            case "GUILD_MEMBER_REMOVE":
                account, community = ref(part(data, "user"), "id"), str(guild.id)
                self._lanes.put(f"community:{community}", lambda: self._memory.leave(PLATFORM, community, account))
            case "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE":
                self._member(guild, data)
            case _ if event in _ROOMS_CHANGED:
                self.changed(guild)
        if (work := self._natives.work(event, data, guild)) is not None:
            self._lanes.put(f"community:{guild.id}", work)

    def community(self, guild: discord.Guild, client: discord.Client) -> None:
        """Learn a whole community with its members."""
        self._sender_tries_again(guild)
        self._lanes.put("session", partial(self._forget_left, guild.shard_id, client))
        self._lanes.put(f"community:{guild.id}", partial(self._learn, guild, members=True))

    def changed(self, guild: discord.Guild) -> None:
        """Learn rooms and roles again; several changes at once are one."""
        self._sender_tries_again(guild)
        lane = f"community:{guild.id}"
        if lane not in self._dirty:
            self._dirty.add(lane)
            self._lanes.put(lane, partial(self._learn, guild, members=False))

    async def _learn(self, guild: discord.Guild, *, members: bool) -> None:
        self._dirty.discard(f"community:{guild.id}")
        await self._open.wait()  # what is doubted first is told after that
        await self._memory.learn(await report_of(guild, members=members))

    def _sender_tries_again(self, guild: discord.Guild) -> None:
        for room in rooms_of(guild):
            self._sender.reachable_again(str(room.id))

    def _member(self, guild: discord.Guild, data: Payload) -> None:
        member = guild.get_member(number(part(data, "user"), "id"))
        if member is None:
            return
        report = one_member(guild, member_report(member))
        self._lanes.put(f"community:{guild.id}", lambda: self._memory.learn(report))
        if member == guild.me or told_one_by_one(guild):
            self.changed(guild)

    def complete(self, shard_id: int, client: discord.Client) -> None:
        """Read back the rooms of a shard: all its communities are in the cache by now."""
        self._lanes.put("session", partial(self._read_back, shard_id, client))

    async def _look_back(self, communities: Sequence[str]) -> None:
        await self._memory.doubt(PLATFORM, communities)
        self._heard = await self._memory.last_heard(PLATFORM)
        self._open.set()

    async def _read_back(self, shard_id: int, client: discord.Client) -> None:
        await self._forget_left(shard_id, client)
        for last in self._heard:
            room = client.get_channel(int(last.room.chat_ref)) if last.room.chat_ref.isdigit() else None
            if isinstance(room, Room):
                if room.guild.shard_id != shard_id:
                    continue
                if not may_read_back(room):
                    self._catch_up.counts["no_permission"] += self._has_more(room, last)
                    continue
                self._lanes.aside(partial(self._compare, last, client))
                if not self._has_more(room, last):
                    continue
            elif last.kind is not RoomKind.DM or shard_id != 0 or not last.message_ref:
                continue  # direct rooms belong to the first shard; what is not known besides is none of this shard's
            # Beside the room's lane: what is said now does not wait until the whole gap is read.
            self._lanes.aside(partial(self._read_room, last, client))

    def _has_more(self, room: Room, last: LastHeard) -> bool:
        """Return whether something was said after the last message that is stored, as far as the cache knows."""
        newest = getattr(room, "last_message_id", None)
        if not last.message_ref:  # the first message of a room may be the one that was missed
            return newest is not None and self._catch_up.reaches(newest)
        return newest is None or not last.message_ref.isdigit() or newest > int(last.message_ref)

    async def _forget_left(self, shard_id: int, client: discord.Client) -> None:
        """Close the communities that threw us out while nobody listened."""
        name = f"{PLATFORM}:communities:{shard_id}/{client.shard_count or 1}"
        before = set(filter(None, (await self._memory.recall(name) or "").split(",")))
        now = {str(guild.id) for guild in client.guilds if guild.shard_id == shard_id}
        for left in sorted(before - now):
            await self._memory.forget_community(PLATFORM, left)
        if before != now:
            await self._memory.remember(name, ",".join(sorted(now)))

    async def _read_room(self, last: LastHeard, client: discord.Client) -> None:
        """Read a gap to its end, then hand it in: which questions are answered hangs on those that came later."""
        read: list[Payload] = []

        async def gather(message: Payload) -> None:
            read.append(message)

        await self._memory.begin_gap(last.room, last.message_ref)
        await self._catch_up.read(last, gather, lambda: self._memory.forget_room(last.room))
        chosen = self._answered(read, client)
        for message in read:
            # What is said while we read back is met twice; whoever comes first, it is news.
            at = time_of(ref(message, "id"))
            live = at is not None and at >= self._began
            over = not live and ref(message, "id") not in chosen
            place = place_of(message, client)
            work = partial(self._hand_in, "MESSAGE_CREATE", message, place, live=live, passed_over=over)
            await self._lanes.through(last.room.chat_ref, work)
        await self._memory.end_gap(last.room)
        figures = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self._catch_up.counts.items())
        await self._memory.remember(f"{PLATFORM}:catch_up", figures)

    def _answered(self, read: Sequence[Payload], client: discord.Client) -> frozenset[str]:
        us, now = self._who(), self._clock.now()
        if us is None:
            return frozenset()
        told = [to_inbound("MESSAGE_CREATE", one, us=us, place=place_of(one, client), now=now) for one in read]
        return answered_of([one for one in told if not isinstance(one, Ignored)], now)

    async def _compare(self, last: LastHeard, client: discord.Client) -> None:
        """Learn what was deleted or edited of what we keep while nobody listened."""
        kept = await self._memory.last_kept(last.room, COMPARED)
        found = await self._catch_up.compare(last.room, kept, lambda: self._memory.forget_room(last.room))
        us = self._who()
        if found.missing and us is not None:
            place = place_of({"channel_id": last.room.chat_ref}, client)
            missed = gone(last.room.chat_ref, found.missing, us=us, place=place, now=self._clock.now())
            missed = replace(missed, event_id=f"missed:{missed.message_id}+{len(missed.more_refs)}", live=False)
            await self._lanes.through(last.room.chat_ref, partial(self._accept_or_count, missed))
        for message in found.edited:
            work = partial(self._hand_in, "MESSAGE_UPDATE", message, place_of(message, client), live=False)
            await self._lanes.through(last.room.chat_ref, work)

    def _take(self, event: str, data: Payload, place: Place) -> None:
        self._lanes.put(ref(data, "channel_id"), partial(self._hand_in, event, data, place))

    async def _hand_in(
        self, event: str, data: Payload, place: Place, *, live: bool = True, passed_over: bool = False
    ) -> None:
        await self._open.wait()
        us, note = self._who(), ""
        if us is None:
            return
        file = paste_of(data) if event != "MESSAGE_DELETE" else None
        if file is not None:
            data, note = await self._read_paste(data, file)
        message = to_inbound(event, data, us=us, place=place, now=self._clock.now(), live=live)
        if note:
            message = noted(message, note)
        if passed_over and not isinstance(message, Ignored):
            message = replace(message, passed_over=True)
        await self._accept_or_count(message)

    async def _react(self, event: str, data: Payload, place: Place) -> None:
        await self._open.wait()
        us = self._who()
        if us is not None:
            await self._accept_or_count(to_reaction(event, data, us=us, place=place, now=self._clock.now()))

    async def _accept_or_count(self, message: InboundMessage | Ignored) -> None:
        if isinstance(message, Ignored):
            self.counts[message.reason] += 1
        else:
            await self._accept(message)

    async def _read_paste(self, data: Payload, file: Payload) -> tuple[Payload, str]:
        """Return the message with its file's words in place of none, and a note for the file."""
        if number(file, "size") > PASTE_LIMIT_BYTES:
            return data, f"not read: over the {PASTE_LIMIT_BYTES // 1024} KB limit"
        found = await self._files.fetch(text(file, "url"), PASTE_LIMIT_BYTES)
        if isinstance(found, str):
            return data, found
        return {**data, "content": found.decode("utf-8", errors="replace").replace("\x00", "")}, "read as text"

    async def _acknowledge(self, interaction: discord.Interaction, data: Payload, place: Place) -> None:
        """Tell the platform at once that an answer will come, then take the command in."""
        await self._defer(interaction, ephemeral=is_private(data, self._forms))
        self._lanes.put(ref(data, "channel_id"), partial(self._use, data, place))

    async def _use(self, data: Payload, place: Place) -> None:
        us = self._who()
        if us is not None:
            now = self._clock.now()
            await self._accept_or_count(to_command(data, us=us, place=place, forms=self._forms, now=now))

    async def _press(self, interaction: discord.Interaction, data: Payload, place: Place) -> None:
        """Tell the platform at once that a button was pressed, then take it in if it is one of ours."""
        if not choice_of(data):
            await self._defer(interaction, ephemeral=True)
            self.counts["foreign_button"] += 1
            _LOG.warning("discord: a button was pressed that is none of ours")
            return
        await self._defer(interaction, ephemeral=True, thinking=True)
        self._lanes.put(ref(data, "channel_id"), partial(self._choose, data, place))

    async def _choose(self, data: Payload, place: Place) -> None:
        us = self._who()
        message = None if us is None else to_press(data, us=us, place=place, now=self._clock.now())
        if message is None or isinstance(message, Ignored):
            self.counts[Why.MALFORMED] += message is not None
            return
        accepted = await self._accept(message)
        if accepted.reason is SilenceReason.NOT_ADDRESSED:  # nothing like it was offered here: no answer comes
            await self._sender.take_back(message.answer_token)

    async def _defer(self, interaction: discord.Interaction, *, ephemeral: bool, thinking: bool = False) -> None:
        """`thinking`: the answer will be a message of its own; else what carries the button stays as it is."""
        try:
            await interaction.response.defer(ephemeral=ephemeral, thinking=thinking)
        except (discord.HTTPException, discord.InteractionResponded) as exc:
            # Too late, or somebody else was first: the answer finds its way as a message.
            self.counts[f"ack_{getattr(exc, 'code', 0)}"] += 1
        except ANY_FAILURE as exc:  # no connection: the command is taken in all the same
            self.counts["ack_failed"] += 1
            _LOG.warning("discord: an interaction could not be acknowledged: %s", type(exc).__name__)
