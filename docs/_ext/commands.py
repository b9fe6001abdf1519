"""The directive ``commands``: the reference of the command line, taken from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

from diffdag.__main__ import commands


class Commands(SphinxDirective):
    """A section for each command: what it does, how it is called, its arguments and options."""

    def run(self) -> list[nodes.Node]:
        group = get_command(commands())
        assert isinstance(group, TyperGroup)
        return [self._section(group.commands[name], name) for name in sorted(group.commands)]

    def _section(self, command, name: str) -> nodes.section:
        section = nodes.section(ids=[f"diffdag-{name}"], names=[f"diffdag {name}"])
        usage = " ".join(["diffdag", name, *_arguments(command), "[OPTIONS]"])
        section += nodes.title("", "", nodes.literal("", f"diffdag {name}"))
        section += nodes.paragraph("", command.help or "")
        section += nodes.literal_block(usage, usage, language="none")
        section += _table(_rows(command))
        self.state.document.note_explicit_target(section)
        return section


def _name(parameter) -> str:
    if isinstance(parameter, TyperArgument):
        return parameter.metavar or parameter.name.upper()
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _arguments(command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            name = _name(parameter) + ("..." if parameter.nargs == -1 else "")
            yield name if parameter.required else f"[{name}]"


def _rows(command) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        default = parameter.default
        told = isinstance(default, (str, int, float, Path)) and default not in ("", False)
        yield _name(parameter), f"{parameter.help or ''}{f' Default: {default}.' if told else ''}"


def _table(rows: Iterator[tuple[str, str]]) -> nodes.table:
    body = nodes.tbody()
    for left, right in rows:
        cells = nodes.literal("", left), nodes.Text(right)
        body += nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])
    group = nodes.tgroup("", *[nodes.colspec(colwidth=width) for width in (35, 65)], body, cols=2)
    return nodes.table("", group, classes=["options"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
