"""Every line of the audience rule carries weight: without any one of them a check of this suite fails."""

import ast
import copy
import inspect
import random
from collections.abc import Iterator
from types import ModuleType

import pytest

from core.domain import audience
from core.domain.audience import Venue, World
from core.domain.ids import RoomId
from tests.audience.worlds import all_complaints, draw, told, venues
from tests.domain.test_audience import TABLE, verdicts

SOURCE = inspect.getsource(audience)
RULE = {"readable_by_all", "_from_room", "_each_reader", "readable_rooms", "_may_use", "usable", "within"}


def _mutants() -> Iterator[tuple[str, str]]:
    """Yield the source with one guard or one operand of a condition taken out, and what was taken."""
    functions = [
        node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.FunctionDef) and node.name in RULE
    ]
    for function in functions:
        for index, node in enumerate(ast.walk(function)):
            if isinstance(node, ast.If):
                yield f"{function.name}: if {ast.unparse(node.test)}", _changed(function.name, index, None)
            elif isinstance(node, ast.BoolOp):
                for place, part in enumerate(node.values):
                    yield f"{function.name}: {ast.unparse(part)}", _changed(function.name, index, place)


def _changed(name: str, index: int, place: int | None) -> str:
    tree = ast.parse(SOURCE)
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    node = list(ast.walk(function))[index]
    if isinstance(node, ast.If):
        node.test = ast.copy_location(ast.Constant(False), node.test)
    elif isinstance(node, ast.BoolOp) and place is not None:
        del node.values[place]
        if len(node.values) == 1:  # `and` and `or` of one: the neutral word beside it
            node.values.append(ast.Constant(isinstance(node.op, ast.And)))
    return ast.unparse(ast.fix_missing_locations(tree))


def _load(source: str) -> ModuleType:
    module = ModuleType("mutated_audience")
    # Dataclasses look their module up by name; a copy of the real namespace is enough for them.
    module.__dict__.update(copy.copy(audience.__dict__))
    exec(compile(source, "mutated_audience", "exec"), module.__dict__)  # noqa: S102  # our own source, one node less
    return module


def _is_caught(module: ModuleType) -> bool:
    """Return whether the table, the oracle or a check of what is built on them notices."""
    try:
        if verdicts(module) != [(row.allowed, row.reason) for row in TABLE]:
            return True
        if module.usable([], frozenset({1})) or module.usable([1, 2], frozenset({1})):
            return True
        return not _rooms_are_right(module) or next(all_complaints(random.Random(3), 400, module), None) is not None
    except Exception:  # a rule that breaks has been noticed
        return True


def _may(module: ModuleType, venue: Venue, asker: int | None, room: RoomId, world: World) -> bool:
    if not module.readable_by_all(venue, room, world).allowed:
        return False
    if asker is None:
        return True
    own = module.readable_by_all(module.Private(asker), room, world)
    return own.allowed or (own.reason == "unknown" and getattr(venue, "room_id", None) == room)


def _rooms_are_right(module: ModuleType) -> bool:
    rng = random.Random(5)
    for _ in range(20):
        truth, before = draw(rng)
        world = told(truth, before, module)
        for venue in venues(truth, module):
            for asker in (None, rng.choice(list(truth.held))):
                right = {room for room in world.rooms if _may(module, venue, asker, room, world)}
                if module.readable_rooms(venue, asker, world) != right:
                    return False
    return True


MUTANTS = list(_mutants())


def test_the_rule_as_it_is_passes() -> None:
    assert len(MUTANTS) > 20
    assert not _is_caught(_load(SOURCE))


@pytest.mark.parametrize("source", [source for _, source in MUTANTS], ids=[name for name, _ in MUTANTS])
def test_a_line_less_is_noticed(source: str) -> None:
    assert _is_caught(_load(source))
