"""Facts about people: proved by living words, their own above others', and parted by whose words they rest on."""

from dataclasses import dataclass

import pytest

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId, RoomKey
from core.domain.profile import Anchor, FactRefusal, Predicate, SaidBy
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.store import facts, links, people, places
from core.store.engine import Database, Tx
from tests.store.erasure_world import add_message


@dataclass
class House:
    database: Database
    community: CommunityId
    room: RoomId
    ana: PersonId
    ben: PersonId
    bot: PersonId

    async def say(self, tx: Tx, who: PersonId, n: int, text: str) -> Anchor:
        message = await add_message(tx, self.room, self.community, who, f"m{n}", text)
        return Anchor(MessageId(message), 0, 0, len(text), who)


@pytest.fixture
async def house(database: Database) -> House:
    async with database.transaction() as tx:
        community = await places.add_community(tx, "console", "console", "Console")
        room = await places.add_room(
            tx, community, RoomKey("console", "lobby"), RoomKind.CHANNEL, "lobby", archive=ArchiveSwitch.ON
        )
        made = [
            (await people.ensure_person(tx, "console", name, community, name, is_bot=name == "bot:self")).id
            for name in ("ana", "ben", "bot:self")
        ]
    return House(database, community, room, *made)


async def values(tx: Tx, *who: PersonId) -> list[tuple[str, str]]:
    return [(fact.predicate.value, fact.value) for fact in await facts.list_facts(tx, who)]


async def test_a_newer_word_of_ones_own_replaces_and_dates_the_older(house: House) -> None:
    async with house.database.transaction() as tx:
        old = await house.say(tx, house.ana, 1, "I live in Berlin")
        new = await house.say(tx, house.ana, 2, "I moved to Lisbon")
        await facts.add(tx, house.ana, Predicate.LOCATED_IN, "Lisbon", SaidBy.SELF, [new])
        await facts.add(
            tx, house.ana, Predicate.LOCATED_IN, "Berlin", SaidBy.SELF, [old]
        )  # learned later, said earlier
        assert await values(tx, house.ana) == [("located_in", "Lisbon")]
        third = await house.say(tx, house.ana, 3, "now Porto")
        await facts.add(tx, house.ana, Predicate.LOCATED_IN, "Porto", SaidBy.SELF, [third])
        assert await values(tx, house.ana) == [("located_in", "Porto")]
        dated = await tx.fetchval(
            "select array_agg(value order by ended_at) from voidbot.profile_facts where state = 'replaced'"
            " and ended_at is not null"
        )
        assert sorted(dated) == ["Berlin", "Lisbon"]
        for n, tool in enumerate(("vim", "emacs"), start=4):
            said = await house.say(tx, house.ana, n, f"I use {tool}")
            await facts.add(tx, house.ana, Predicate.USES, tool, SaidBy.SELF, [said])
        assert len(await values(tx, house.ana)) == 3  # of some sorts one has many


async def test_a_fact_lives_as_long_as_the_words_that_prove_it(house: House) -> None:
    async with house.database.transaction() as tx:
        anchor = await house.say(tx, house.ana, 1, "call me Nan")
        await facts.add(tx, house.ana, Predicate.GOES_BY, "Nan", SaidBy.SELF, [anchor])
        (fact,) = await facts.list_facts(tx, [house.ana])
        assert [quote.words for quote in fact.quotes] == ["call me Nan"]
        await tx.execute("update voidbot.messages set revision = 1, text = 'never mind'")
        assert await values(tx, house.ana) == []


async def test_what_cannot_prove_a_fact_is_refused(house: House) -> None:
    async with house.database.transaction() as tx:
        anas = await house.say(tx, house.ana, 1, "I like tea")
        bens = await house.say(tx, house.ben, 2, "Ana is a she, I think")
        bots = await house.say(tx, house.bot, 3, "Ana likes tea")
        gone = Anchor(anas.message_id, 1, 0, 3, house.ana)

        async def tried(predicate: Predicate, said_by: SaidBy, *anchors: Anchor, value: str = "x") -> object:
            return await facts.add(tx, house.ana, predicate, value, said_by, list(anchors))

        assert await tried(Predicate.LIKES, SaidBy.SELF) is FactRefusal.NO_ANCHOR
        assert await tried(Predicate.LIKES, SaidBy.SELF, gone) is FactRefusal.NO_ANCHOR
        assert await tried(Predicate.LIKES, SaidBy.REPORTED, bots) is FactRefusal.BOT
        assert await tried(Predicate.LIKES, SaidBy.SELF, bens) is FactRefusal.NOT_THEIR_WORDS
        assert await tried(Predicate.PRONOUNS, SaidBy.REPORTED, bens, value="she") is FactRefusal.NOT_THEIR_WORDS
        assert await tried(Predicate.PRONOUNS, SaidBy.SELF, anas, value="p" * 41) is FactRefusal.BAD_VALUE
        await people.save_choices(tx, house.ana, {**dict.fromkeys(people.CHOICES, True), "learn-me": False})
        assert await tried(Predicate.LIKES, SaidBy.SELF, anas) is FactRefusal.NOT_WANTED


async def test_a_corrected_value_is_not_made_again_from_the_same_words(house: House) -> None:
    async with house.database.transaction() as tx:
        anchor = await house.say(tx, house.ana, 1, "I like tea, said nobody ever")
        number = await facts.add(tx, house.ana, Predicate.LIKES, "tea", SaidBy.SELF, [anchor])
        assert isinstance(number, int)
        await facts.refuse(tx, number)
        again = await facts.add(tx, house.ana, Predicate.LIKES, "Tea", SaidBy.SELF, [anchor])
        assert again is FactRefusal.CORRECTED_BEFORE
        other = await house.say(tx, house.ana, 2, "all right, I do like tea")
        assert isinstance(await facts.add(tx, house.ana, Predicate.LIKES, "tea", SaidBy.SELF, [other]), int)


async def test_what_was_set_by_command_stands_above_what_is_learned(house: House) -> None:
    async with house.database.transaction() as tx:
        await facts.state(tx, house.ana, Predicate.PRONOUNS, "they/them", [house.room])
        anchor = await house.say(tx, house.ana, 1, "he, him, whatever")
        await facts.add(tx, house.ana, Predicate.PRONOUNS, "he/him", SaidBy.SELF, [anchor])
        assert await values(tx, house.ana) == [("pronouns", "they/them")]


@pytest.mark.field("F046")
async def test_parting_gives_each_account_what_its_own_words_prove(house: House) -> None:
    async with house.database.transaction() as tx:
        await links.join(tx, house.ana, house.ben)
        anas, bens = await house.say(tx, house.ana, 1, "I use vim"), await house.say(tx, house.ben, 2, "vim, as I said")
        only_bens = await house.say(tx, house.ben, 3, "I like rain")
        await facts.add(tx, house.ana, Predicate.USES, "vim", SaidBy.SELF, [anas, bens])
        await facts.add(tx, house.ana, Predicate.LIKES, "rain", SaidBy.SELF, [only_bens])
        await links.part(tx, house.ana, house.ben)
        assert await facts.part(tx, house.ana, house.ben) == 2
        assert await values(tx, house.ana) == [("uses", "vim")]
        assert sorted(await values(tx, house.ben)) == [("likes", "rain"), ("uses", "vim")]
        (mine,) = await facts.list_facts(tx, [house.ana])
        assert [quote.message_id for quote in mine.quotes] == [anas.message_id]
