"""The data of interactions as a real client would fill it in: options of commands, components, forms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.doubles.discord_payloads import Json, channel_json, member_json, role_json, user_json
from tests.doubles.discord_state import Channel, Member, Role, User

SUBCOMMAND, GROUP, TEXT, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, NUMBER = 1, 2, 3, 4, 5, 6, 7, 8, 10
ROW, TEXT_INPUT, SELECTS, LABEL = 1, 4, (3, 5, 6, 7, 8), 18


def command_data(command_id: str, path: str, options: Mapping[str, Any]) -> Json:
    """Return the data of a command; `path` is its name, or name, group and subcommand."""
    resolved: Json = {}
    inner: list[Json] = [option(name, value, resolved) for name, value in options.items()]
    name, *below = path.split()
    for depth, part in enumerate(reversed(below)):
        inner = [{"name": part, "type": SUBCOMMAND if depth == 0 else GROUP, "options": inner}]
    data = {"id": command_id, "name": name, "type": 1, "options": inner}
    return data | ({"resolved": resolved} if resolved else {})


def option(name: str, value: Any, resolved: Json) -> Json:
    """Return one filled option; people, rooms and roles are also put into `resolved`."""

    def resolve(kind: str, key: int, body: Json) -> None:
        resolved.setdefault(kind, {})[str(key)] = body

    match value:
        case bool():
            return {"name": name, "type": BOOLEAN, "value": value}
        case int():
            return {"name": name, "type": INTEGER, "value": value}
        case float():
            return {"name": name, "type": NUMBER, "value": value}
        case str():
            return {"name": name, "type": TEXT, "value": value}
        case Member() | User():
            user = value.user if isinstance(value, Member) else value
            resolve("users", user.id, user_json(user))
            if isinstance(value, Member):
                permissions = str(int(value.permissions()))
                resolve("members", user.id, member_json(value, with_user=False) | {"permissions": permissions})
            return {"name": name, "type": USER, "value": str(user.id)}
        case Channel():
            resolve("channels", value.id, channel_json(value) | {"permissions": "0"})
            return {"name": name, "type": CHANNEL, "value": str(value.id)}
        case Role():
            resolve("roles", value.id, role_json(value))
            return {"name": name, "type": ROLE, "value": str(value.id)}
        case _:
            raise TypeError(f"no option holds {value!r}")


def focused(data: Json, name: str) -> None:
    """Mark the option that is being typed."""
    inner = data["options"]
    while inner and inner[0]["type"] in (SUBCOMMAND, GROUP):
        inner = inner[0]["options"]
    next(one for one in inner if one["name"] == name)["focused"] = True


def walk(components: Sequence[Json]) -> Iterator[Json]:
    """Yield components and what is inside them."""
    for one in components:
        yield one
        yield from walk(one.get("components") or [])
        yield from walk([one[name] for name in ("component", "accessory") if one.get(name)])


def component_in(components: Sequence[Json], custom_id: str) -> Json | None:
    return next((one for one in walk(components) if one.get("custom_id") == custom_id), None)


def filled_form(components: Sequence[Json], values: Mapping[str, str]) -> list[Json]:
    """Return a form's components as they are submitted; an input that is not named keeps its preset value."""
    strangers = set(values) - {one.get("custom_id") for one in walk(components)}
    assert not strangers, f"the form has no inputs {sorted(strangers)}"
    return [filled(one, values) for one in components]


def filled(component: Json, values: Mapping[str, str]) -> Json:
    kind = component["type"]
    if kind == ROW:
        return {"type": ROW, "components": [filled(one, values) for one in component["components"]]}
    if kind == LABEL:
        return {"type": LABEL, "component": filled(component["component"], values)}
    key = component.get("custom_id")
    if kind == TEXT_INPUT:
        return {"type": kind, "custom_id": key, "value": values.get(str(key), component.get("value") or "")}
    if kind in SELECTS:
        return {"type": kind, "custom_id": key, "values": [values[str(key)]] if str(key) in values else []}
    return {name: value for name, value in component.items() if name in ("type", "content")}
