"""Write docs/reference/requirements-coverage.md: which test or rule shows each requirement.

Run `python tools/requirements_docs.py`, or with `--check` to exit 1 when the page is stale, when an id has neither a
test nor a reason, or when a test or rule names an id that does not exist. Tests are read, not run.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from generated import keep_page
from pgdyno.advisor.rulebook import contradictions, shipped_rules

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "requirements-coverage.md"
LIST = ROOT / "tools" / "requirements.toml"
TESTS = ROOT / "tests"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: its id, section and title; `reason` says why no test shows it.

    An open one that is `pending` belongs to a section that is being built.
    """

    id: str
    section: str
    title: str
    reason: str = ""
    pending: bool = False


def requirements(text: str) -> tuple[Requirement, ...]:
    """Read the list. Raises ValueError on a reason for an id that does not exist."""
    document = tomllib.loads(text)
    reasons: dict[str, str] = document.pop("reasons", {})
    found = []
    for key, section in document.items():
        for number, title in enumerate(section["titles"], 1):
            name = f"{'' if key == 'CON' else 'R-'}{key}-{number:02d}"
            pending = section.get("pending", False)
            found.append(Requirement(name, section["name"], title, reasons.pop(name, ""), pending))
    if reasons:
        raise ValueError(f"reasons for ids that do not exist: {', '.join(reasons)}")
    return tuple(found)


def marked(folder: Path) -> dict[str, list[str]]:
    """Return the tests that name each id: `@pytest.mark.requirement("R-...")`, on functions, classes and modules."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "requirement" not in text:  # to parse all files took most of the time
            continue
        for name, ids in _marks(ast.parse(text), path.relative_to(folder.parent)):
            for one in ids:
                found.setdefault(one, []).append(name)
    return found


def _marks(tree: ast.Module, path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(_is_name(target, "pytestmark") for target in node.targets):
            yield str(path), _ids(node.value)
        yield from _marks_of(node, str(path))


def _marks_of(node: ast.stmt, place: str) -> Iterator[tuple[str, Sequence[str]]]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        name = f"{place}::{node.name}"
        for decorator in node.decorator_list:
            yield name, _ids(decorator)
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                yield from _marks_of(child, name)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _ids(node: ast.expr) -> list[str]:
    """Return the ids of every requirement mark inside of an expression, marks of parametrize included."""
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "requirement"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def rules_by_id() -> dict[str, list[str]]:
    """Return the rules that name each requirement or contradiction."""
    found: dict[str, list[str]] = {}
    for rule in shipped_rules():
        for one in (*rule.requirements, *rule.contradictions):
            found.setdefault(one, []).append(rule.id)
    names = {rule.id for rule in shipped_rules()}
    for one, contradiction in contradictions().items():
        if contradiction.decided_by in names and contradiction.decided_by not in found.get(one, []):
            found.setdefault(one, []).append(contradiction.decided_by)
    return found


def problems(
    wanted: Sequence[Requirement], tests: Mapping[str, Sequence[str]], rules: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return what is wrong: ids without test and reason, reasons beside a test, ids that nobody asked for."""
    known = {one.id for one in wanted}
    found = [f"{one.id} has neither a test nor a reason: {one.title}" for one in wanted
             if not _is_shown(one, tests) and not one.pending]  # fmt: skip
    found += [f"{one.id} has a test and a reason: drop the reason" for one in wanted if one.reason and one.id in tests]
    found += [f"{name} names {one}, which is no requirement" for one, names in tests.items() if _is_strange(one, known)
              for name in names]  # fmt: skip
    found += [f"rule {name} names {one}, which is no requirement" for one, names in rules.items()
              if _is_strange(one, known) for name in names]  # fmt: skip
    return found


def _is_shown(one: Requirement, tests: Mapping[str, Sequence[str]]) -> bool:
    return one.id in tests or bool(one.reason)


def _is_strange(name: str, known: set[str]) -> bool:
    """Ids of sections that the list does not hold, such as R-SAF-04, may be named."""
    sections = {one.rpartition("-")[0] for one in known}
    return name not in known and name.rpartition("-")[0] in sections


def page(wanted: Sequence[Requirement], tests: Mapping[str, Sequence[str]], rules: Mapping[str, Sequence[str]]) -> str:
    """Return the page."""
    shown = sum(one.id in tests for one in wanted)
    reasoned = sum(bool(one.reason) and one.id not in tests for one in wanted)
    parts = [
        "<!-- Made by tools/requirements_docs.py from the tests' marks, the rules and tools/requirements.toml. -->\n\n"
        "# Coverage of requirements\n\n"
        f"{len(wanted)} requirements: {shown} shown by a test, {reasoned} with a reason why no test can, "
        f"{len(wanted) - shown - reasoned} open."
    ]
    for section in dict.fromkeys(one.section for one in wanted):
        chosen = [one for one in wanted if one.section == section]
        rows = "".join(_row(one, tests.get(one.id, ()), rules.get(one.id, ())) for one in chosen)
        covered = sum(_is_shown(one, tests) for one in chosen)
        head = "| id | must | rules | shown by |\n|---|---|---|---|\n"
        parts.append(f"## {section}: {covered} of {len(chosen)}\n\n{head}{rows}".rstrip())
    return "\n\n".join(parts) + "\n"


def _row(one: Requirement, tests: Sequence[str], rules: Sequence[str]) -> str:
    links = ", ".join(f"[{rule}](rules/{rule}.md)" for rule in dict.fromkeys(rules))
    shown = "<br>".join(f"`{_short(name)}`" for name in dict.fromkeys(tests))
    reason = f"no test: {one.reason}" if one.reason else "**open**"
    return f"| {one.id} | {one.title} | {links} | {shown or reason} |\n"


def _short(name: str) -> str:
    path, _, test = name.partition("::")
    return f"{Path(path).name}::{test}" if test else Path(path).name


def main(arguments: list[str]) -> int:
    """Write the page, or with --check say what is wrong; return the exit code."""
    wanted, tests, rules = requirements(LIST.read_text("utf-8")), marked(TESTS), rules_by_id()
    text = page(wanted, tests, rules)
    found = problems(wanted, tests, rules) if "--check" in arguments else []
    for problem in found:
        print(problem, file=sys.stderr)
    return max(keep_page(text, PAGE, arguments), 1 if found else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
