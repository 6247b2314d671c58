"""What of an environment is another than when a study was begun: the words beside two hashes that differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.capture.secrets import LEFT_OUT, public_setting
from pgdyno.knobs.policy import ruling_of
from pgdyno.knobs.values import setting_text
from pgdyno.model.environment import Environment
from pgdyno.model.facts import Facts, SettingFact
from pgdyno.model.shapes import inner, plain
from pgdyno.routes.route_names import may_hold_secret
from pgdyno.units import some_text

MOST_NAMED = 5
_OF_OTHERS = ("client", "session", "override")
"""Sources of settings that are not the server's own configuration."""


def facts_image(facts: Facts) -> dict[str, object]:
    """Return the facts as a study keeps them in JSON: host, server, Linux knobs, settings that are not built-in.

    A store may be shared, and is read by the dashboard: what may be a secret in a setting is left out.
    """
    changed = {
        name: LEFT_OUT if row.vartype == "string" and may_hold_secret(row.name) else public_setting(name, row.setting)
        for name, row in facts.settings.items()
        if row.setting != row.boot_val and row.source != "default"
    }
    kernel = {name: plain(fact.value) for name, fact in facts.kernel.items()}
    return {"host": plain(facts.host), "server": plain(facts.server), "settings": changed, "kernel": kernel}


def environment_changes(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """Name what differs between two images of facts, of what makes an environment; None where they do not tell."""
    old, new = Environment.of_image(before).known(), Environment.of_image(now).known()
    found = [
        f"{name} was {old.get(name, 'not known')}, is {new.get(name, 'not known')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    return _told(found)


def settings_changes(before: Mapping[str, object], now: Facts) -> str | None:
    """Name the server's settings that bear on performance and are others than in an image of facts; None without one.

    Trials at the server's own settings would be measured with others, and a search would ask for other points.
    """
    kept = before.get("settings")
    if not isinstance(kept, Mapping):
        return None
    found = []
    for name, row in sorted(now.settings.items()):
        ruling = ruling_of(name)
        if ruling is None or not ruling.settable or row.source in _OF_OTHERS:
            continue
        old = kept.get(name, row.boot_val)
        if old is not None and str(old) != row.setting and (name in kept or row.source != "default"):
            found.append(f"{name} was {_value_text(row, str(old))}, is {_value_text(row, row.setting)}")
    return _told(found)


def other_server(before: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...] | None:
    """Name what tells of two images of facts that they are of two servers: empty for one server.

    None where neither the system's identifier nor the data directory is known on both sides. An environment does not
    tell servers apart: two of one version on one host share it.
    """
    both = [(name, _of_server(before, name), _of_server(now, name)) for name in ("system_identifier", "data_directory")]
    known = [(name, was, here) for name, was, here in both if was is not None and here is not None]
    return tuple(f"{name} was {was}, is {here}" for name, was, here in known if was != here) if known else None


def _of_server(image: Mapping[str, object], name: str) -> object:
    value = inner(image, "server").get(name)
    return None if isinstance(value, Mapping) else value  # a mapping says why it is unknown


def _value_text(row: SettingFact, value: str) -> str:
    return setting_text(row, float(value)) if row.vartype in ("integer", "real") else value


def _told(found: Sequence[str]) -> str | None:
    return f"{some_text(found, MOST_NAMED)}." if found else None
