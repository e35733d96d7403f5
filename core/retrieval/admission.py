"""Where a file's chats go and who may hear them, decided before the first row is written.

What the platform says of a room that it knows is used as it is. Of everything else the operator says who may hear it,
and what was private in the file is never heard by more than those who were in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.domain.errors import InputRejected
from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.imports import Account, AudienceKind, AudienceSpec, Chat, ImportFormat
from core.domain.platforms import Surroundings
from core.domain.rooms import Community, RoomKind, RoomState
from core.retrieval.survey import Survey
from core.store import access, import_people, imports, places
from core.store.engine import Tx
from core.store.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator asks for. `room`: the platform's id of the one chat of the file, where it does not say it."""

    community_id: CommunityId
    audience: AudienceSpec | None = None
    room: str | None = None
    sure: bool = False
    resume: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The room of a chat. `known`: its row, if there is one; `live`: the platform feeds it.

    `parent`: the room that it hangs on and whose readers are its own. `twin`: the live room that holds the same talk
    under other ids. `audience` None: its readers stay as they are.
    """

    chat: Chat
    key: RoomKey
    kind: RoomKind
    known: RoomId | None = None
    live: bool = False
    excluded: bool = False
    parent: RoomKey | None = None
    twin: RoomId | None = None
    audience: AudienceSpec | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is decided of one file."""

    survey: Survey
    wish: Wish
    community: Community
    targets: Mapping[int, Target]
    run: imports.Run | None


async def admit(tx: Tx, survey: Survey, wish: Wish) -> Plan:
    """Decide where the file's chats go.

    Raises:
        InputRejected: It may not be brought in like this; its message is one sentence for the operator.
    """
    community = await places.load_community(tx, wish.community_id)
    name = survey.path.name
    if not survey.chats:
        raise InputRejected(f"{name}: holds no chat that can be read")
    if survey.needs_zone:
        raise InputRejected(f"{name}: gives local times; name their zone with --timezone, such as Europe/Berlin")
    if wish.room is not None and len(survey.chats) > 1:
        raise InputRejected(f"{name}: holds {len(survey.chats)} chats, and --room is for a file with one")
    run = await imports.find_run(tx, wish.community_id, survey.sha256)
    admission = _Admission(tx, survey, wish, community)
    targets = {number: await admission.target(chat) for number, chat in survey.chats.items()}
    return Plan(survey, wish, community, targets, run)


class _Admission:
    def __init__(self, tx: Tx, survey: Survey, wish: Wish, community: Community) -> None:
        self._tx = tx
        self._survey = survey
        self._wish = wish
        self._community = community

    async def target(self, chat: Chat) -> Target:
        key = self._key(chat)
        place = await places.find_place(self._tx, key)
        if place is not None:
            return await self._known(chat, key, place)
        parent = await self._live_parent(chat)
        if parent is not None:
            twin = parent.room.id if chat.closed_copy else None
            kind = RoomKind.TOPIC if chat.closed_copy else chat.kind
            return Target(chat=chat, key=key, kind=kind, parent=parent.room.key, twin=twin)
        return await self._by_audience(Target(chat=chat, key=key, kind=_alone(chat.kind)))

    def _key(self, chat: Chat) -> RoomKey:
        name, wanted = self._survey.path.name, self._wish.room
        if self._survey.form is ImportFormat.JSONL and chat.key is not None:
            world = f"{self._community.platform}:{self._community.chat_ref}"
            return replace(chat.key, chat_ref=f"{world}/{wanted or chat.key.chat_ref}")
        if wanted is not None:
            platform = self._survey.form.value
            return RoomKey(platform, wanted, f"export:{wanted}" if chat.closed_copy else "")
        if chat.key is None:
            raise InputRejected(f"{name}: does not say which chat it is; name its id with --room")
        return chat.key

    async def _known(self, chat: Chat, key: RoomKey, place: Place) -> Target:
        room = place.room
        if room.community_id != self._wish.community_id:
            raise InputRejected(f"room {key.chat_ref}: belongs to another community, {place.community.name}")
        listed = await access.list_readers(self._tx, room.id)
        by_hand = listed is not None and listed.by_hand
        live = not by_hand and not chat.closed_copy and self._survey.form is not ImportFormat.JSONL
        closed = room.state is RoomState.DELETED
        found = Target(chat=chat, key=room.key, kind=room.kind, known=room.id, live=live, excluded=closed)
        if by_hand and self._wish.audience is not None:
            return await self._by_audience(found)
        parent = await self._live_parent(chat) if chat.closed_copy else None
        return replace(found, twin=None if parent is None else parent.room.id)

    async def _live_parent(self, chat: Chat) -> Place | None:
        """Return the room whose readers are the chat's: a public thread's channel, or the group whose copy it is."""
        key = chat.parent if chat.kind is RoomKind.THREAD_PUBLIC else None
        if chat.closed_copy and chat.kind is RoomKind.GROUP and chat.key is not None:
            key = replace(chat.key, topic_ref="")
        place = None if key is None else await places.find_place(self._tx, key)
        if place is None or place.room.community_id != self._wish.community_id:
            return None
        return place if place.room.state is not RoomState.DELETED else None

    async def _by_audience(self, target: Target) -> Target:
        spec, chat = self._wish.audience, target.chat
        about = f"chat {chat.key.chat_ref}" if chat.key is not None else f"room {target.key.chat_ref}"
        if spec is None:
            raise InputRejected(f"{about}: is no room that this community has; say with --audience who may hear it")
        if chat.private and spec.kind in (AudienceKind.COMMUNITY, AudienceKind.STAFF, AudienceKind.ROLE):
            raise InputRejected(
                f"{about}: was private, so that only people who are in it may hear it: --audience people:ID,ID"
            )
        match spec.kind:
            case AudienceKind.COMMUNITY:
                if not self._wish.sure:
                    raise InputRejected(
                        f"{about}: everyone of the community would hear it; add --i-am-sure if that is meant"
                    )
            case AudienceKind.STAFF | AudienceKind.ROLE:
                await self._check_roles(spec)
            case AudienceKind.PEOPLE:
                await self._check_people(spec, chat, about)
            case AudienceKind.ROOM:
                host = await self._host(spec)
                await self._check_host(host, chat, about)
                return replace(target, kind=RoomKind.TOPIC, parent=host.room.key, audience=spec)
        return replace(target, audience=spec)

    async def _check_roles(self, spec: AudienceSpec) -> None:
        staff = spec.kind is AudienceKind.STAFF
        found = await access.find_roles(self._tx, self._community.id, spec.refs, admins=staff)
        if staff and not found:
            raise InputRejected("audience staff: this community has no role that administers it; name roles or people")
        if missing := [ref for ref in spec.refs if ref not in found]:
            raise InputRejected(f"audience role: this community has no role {missing[0]}")

    async def _check_people(self, spec: AudienceSpec, chat: Chat, about: str) -> None:
        inside = self._inside(chat)
        known = await import_people.find(self._tx, self._platform(), spec.refs)
        for ref in spec.refs:
            if chat.private and ref not in inside:
                raise InputRejected(f"{about}: was private, and {ref} is not among the people in it")
            named = self._survey.form is not ImportFormat.JSONL and ref in inside
            if not named and ref not in known:
                raise InputRejected(f"audience people: nobody with the id {ref} is known here")

    def _platform(self) -> str:
        return self._community.platform if self._survey.form is ImportFormat.JSONL else self._survey.form.value

    def _inside(self, chat: Chat) -> set[str]:
        inside = set(self._survey.people.get(chat.number, ()))
        if chat.kind is RoomKind.DM and chat.key is not None:
            inside.add(chat.key.chat_ref)
        return inside

    async def _host(self, spec: AudienceSpec) -> Place:
        place = await places.find_place(self._tx, RoomKey(self._community.platform, spec.refs[0]))
        if place is None or place.room.community_id != self._community.id:
            raise InputRejected(f"audience room: this community has no room with the id {spec.refs[0]}")
        if place.room.state is RoomState.DELETED:
            raise InputRejected(f"audience room: {spec.refs[0]} is closed")
        return place

    async def _check_host(self, host: Place, chat: Chat, about: str) -> None:
        if not chat.private:
            return
        listed = await access.list_readers(self._tx, host.room.id)
        if listed is None or listed.everyone or listed.roles or not listed.accounts <= self._inside(chat):
            raise InputRejected(f"{about}: was private, and others may read the room {host.room.key.chat_ref}")


def _alone(kind: RoomKind) -> RoomKind:
    """Return the kind of a room that hangs on nothing: one that did would be read by its parent's readers."""
    return RoomKind.CHANNEL if kind in (RoomKind.THREAD_PUBLIC, RoomKind.FORUM_POST) else kind


async def make_rooms(tx: Tx, plan: Plan) -> dict[str, int]:
    """Make the rows of rooms and topics that are missing, and set their readers; return them as a run keeps them."""
    rooms: dict[str, int] = {}
    for number, target in plan.targets.items():
        if target.excluded:
            continue
        room_id = target.known or await places.meet_room(tx, plan.community.id, target.key, _about(plan, target))
        rooms[str(number)] = room_id
        if target.audience is not None and target.audience.kind is not AudienceKind.ROOM:
            await _set_readers(tx, plan, target, room_id)
        topics = plan.survey.topics.get(number)
        for ref, title in (topics.titles if topics is not None else {}).items():
            rooms[f"{number}/{ref}"] = await _meet_topic(tx, plan, target, ref, title)
    return rooms


def _about(plan: Plan, target: Target) -> Surroundings:
    return Surroundings(
        community_ref=plan.community.chat_ref, kind=target.kind, name=target.chat.name, parent=target.parent
    )


async def _meet_topic(tx: Tx, plan: Plan, target: Target, ref: str, title: str) -> RoomId:
    """Return the room of a topic. One that is there keeps its present name; readers are the group's."""
    key = replace(target.key, topic_ref=f"{target.key.topic_ref}/{ref}".removeprefix("/"))
    place = await places.find_place(tx, key)
    if place is not None and place.room.community_id == plan.community.id:
        return place.room.id
    parent = target.parent if target.kind is RoomKind.TOPIC and target.parent is not None else target.key
    about = Surroundings(community_ref=plan.community.chat_ref, kind=RoomKind.TOPIC, name=title, parent=parent)
    return await places.meet_room(tx, plan.community.id, key, about)


async def _set_readers(tx: Tx, plan: Plan, target: Target, room_id: RoomId) -> None:
    spec = target.audience
    if spec is None:
        return
    roles: Sequence[int] = ()
    users = []
    if spec.kind in (AudienceKind.STAFF, AudienceKind.ROLE):
        staff = spec.kind is AudienceKind.STAFF
        roles = list((await access.find_roles(tx, plan.community.id, spec.refs, admins=staff)).values())
    elif spec.kind is AudienceKind.PEOPLE:
        jsonl = plan.survey.form is ImportFormat.JSONL
        platform = plan.community.platform if jsonl else plan.survey.form.value
        found = await import_people.meet(tx, platform, [Account(ref, "") for ref in spec.refs])
        users = [person.id for person in found.values()]
    everyone = spec.kind is AudienceKind.COMMUNITY
    await access.save_access(
        tx, room_id, plan.community.id, everyone=everyone, users=users, roles=roles, source="operator"
    )


def file_name(path: Path) -> str:
    """Return a file's name as it is kept."""
    return path.name[:200]
