"""The name that the operator gives the bot, as each mind that exists bears it: set where it differs."""

import unicodedata

import structlog

from core.domain.mind.facts import Actor, Emitter
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.profile import ConfigureProfile
from core.state.service import StateService
from core.store import state
from core.store.engine import Database, Tx

log = structlog.get_logger()

NAME_CHARS = 64


async def name_minds(database: Database, service: StateService, given: str) -> int:
    """Let every mind bear a name; return how many had another one.

    Capital letters alone make no other name. A mind that comes into being later bears it from the next start on.
    """
    name = "".join(filter(str.isprintable, unicodedata.normalize("NFC", given))).strip()[:NAME_CHARS].rstrip()
    if not name:
        return 0
    async with database.transaction(durable=False) as tx:
        others = await state.list_named_otherwise(tx, name)
    for mind_id in others:  # one mind in a transaction
        async with database.transaction() as tx:
            await _name(tx, service, mind_id, name)
    return len(others)


async def _name(tx: Tx, service: StateService, mind_id: str, name: str) -> None:
    mind = await state.lock_mind(tx, mind_id)
    if mind_id not in await state.list_named_otherwise(tx, name):
        return  # another process starts beside this one
    item = Item(ConfigureProfile(public_name=name), f"named:{mind.last_seq}")
    actor = Actor(Emitter.PARENT, "settings")
    await service.apply(tx, Batch(mind_id=mind_id, actor=actor, items=(item,), mode=Mode.ALL))
    log.info("mind.named", mind=mind_id)
