"""Build the options and arguments of all commands and jobs, with the texts of options.toml.

A command is a function. Each of its parameters is an option: type and default are the function's,
the help is that of the table's row of that name, or of `COMMAND.name` if the option has another
meaning in a command. A parameter whose type is a dataclass stands for a group of options, one for
each field; a group may also be the parameters of a function, and the command gets what it returns.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from importlib import resources
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec
import typer

from featurelib.cli.streams import has_styles
from featurelib.errors import ConfigError, RefusedError
from featurelib.view.layout import paint

if TYPE_CHECKING:
    from featurelib.api.clusters import Answer
    from featurelib.view.layout import Page

YES = ("y", "yes")
# Characters that Kafka's tools strip from NAME and LEVEL (FeatureCommand.parseNameAndLevel; Java's
# String.trim).
_BLANKS = "".join(map(chr, range(0x21)))


class OptionWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The texts of an option in options.toml. `flag`: the option's name, if not the parameter's;
    `least`, `most`: the allowed numbers."""

    help: str | None = None
    metavar: str | None = None
    flag: str | None = None
    panel: str | None = None
    least: int | float | None = None
    most: int | float | None = None
    is_argument: bool = False

    def as_typer(self, name: str) -> Any:
        """Return the typer object of an option. `name`: the parameter's name."""
        words: dict[str, Any] = {"metavar": self.metavar, "help": self.help}
        if self.is_argument:
            return typer.Argument(rich_help_panel="Arguments", **words)
        flag = self.flag or f"--{name.replace('_', '-')}"
        words |= {"rich_help_panel": self.panel, "min": self.least, "max": self.most}
        return typer.Option(flag, **words)


OPTIONS = msgspec.toml.decode(
    resources.files(__package__).joinpath("options.toml").read_bytes(),
    type=dict[str, OptionWords | str | bool],
)


FLAGS = {
    row.flag or f"--{name.rpartition('.')[2].replace('_', '-')}"
    for name, row in OPTIONS.items()
    if isinstance(row, OptionWords) and not row.is_argument
}


def _words(name: str, command: str) -> OptionWords | str | bool | None:
    """Return a parameter's row in options.toml; None = no row, False = no option."""
    rows = (f"{part}.{name}" for part in reversed(command.split()))
    row = OPTIONS.get(next((part for part in rows if part in OPTIONS), name))
    return OPTIONS[row] if isinstance(row, str) else row


def with_options(
    command: Callable[..., Any], name: str, **makers: Callable[..., Any]
) -> Callable[..., int]:
    """Return a function as the command `name`. Each parameter becomes an option; `makers` create
    the values of some parameters. The result of an API function is printed."""
    hints = get_type_hints(command)
    is_api = hints["return"] is not int
    printing = print_answer
    if is_api or "night" in hints:
        from featurelib.cli.choosing import CHOOSING, PRINTING

        printing = PRINTING.get(name, print_answer)
        own_makers = {key.removeprefix(f"{name}."): make for key, make in CHOOSING.items()}
        makers |= {parameter: make for parameter, make in own_makers.items() if make is not None}
    options, call = _options(command, name, makers)
    if is_api:
        options += _options(_as_json, name, {})[0]
    options = [*{option.name: option for option in options}.values()]  # makers may share an option

    def run(**given: Any) -> int:
        if not is_api:
            return int(call(given))
        return printing(call(given), as_json=given["as_json"])

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _demo(demo: bool = False) -> None:
    """Accept the option --demo, which every command that reads tables has."""


def _samples(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of the samples. Raises ConfigError if an option names another place, or the
    sample tables do not exist."""
    from featurelib.source import SAMPLE_TABLES, demo_places

    places = demo_places()
    if not SAMPLE_TABLES.is_dir():
        raise ConfigError("--demo: the samples' tables are not made yet. Run ./spark-submit.sh")
    for name in (*places, "capture", "bootstrap", "file"):
        if values.get(name) is not None:
            raise ConfigError(f"--demo: --{name} cannot stand beside it. Keep one.")
    return places


def _as_json(as_json: bool = False) -> bool:
    """Accept the option --json, which every API function has."""
    return as_json


def _options(
    make: Callable[..., Any], command: str, groups: Mapping[str, Callable[..., Any]]
) -> tuple[list[inspect.Parameter], Callable[[Mapping[str, Any]], Any]]:
    """Return (options for the parameters or fields of `make`, function that makes the value from
    option values). `groups`: parameters that expand to several options."""
    hints, options = get_type_hints(make, include_extras=True), list[inspect.Parameter]()
    names, inner = set[str](), dict[str, Callable[[Mapping[str, Any]], Any]]()
    for parameter in inspect.signature(make).parameters.values():
        name, kind = parameter.name, hints[parameter.name]
        if name in groups or (isinstance(kind, type) and is_dataclass(kind)):
            below, inner[name] = _options(groups.get(name, kind), command, {})
            options += below
            continue
        if isinstance(kind, UnionType) and str in get_args(kind):  # a command takes the text form
            kind = str | None if NoneType in get_args(kind) else str
        words = _words(name, command)
        if isinstance(words, OptionWords):
            kind = Annotated[kind, words.as_typer(name)]
        if words is not False:
            names.add(name)
            options.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    if "tables" in names and command != "job":
        options += _options(_demo, command, {})[0]

    def call(given: Mapping[str, Any]) -> Any:
        values = {name: given[name] for name in names}
        if given.get("demo") and "tables" in names:
            values |= {name: at for name, at in _samples(values).items() if name in names}
        return make(**values, **{name: build(given) for name, build in inner.items()})

    return options, call


def read_pairs(
    option: str,
    texts: Iterable[str],
    expected: str = "NAME=LEVEL",
    *,
    sign: str = "=",
    fits: Callable[[str, str], bool] = lambda name, value: True,
    advice: str = "",
) -> dict[str, str]:
    """Return name → value from texts such as `NAME=LEVEL`. `sign`: the separator. Raises
    ConfigError for another form or a repeated name."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip(_BLANKS) for part in text.rpartition(sign))
        if not (name and value and fits(name, value)):
            raise ConfigError(f"{option} {text}: expected {expected}, found {text!r}.{advice}")
        if name in pairs:
            raise ConfigError(f"{option} {text}: {name} is given twice. Remove one of the two.")
        pairs[name] = value
    return pairs


def at_terminal() -> bool:
    """Return true if a person can confirm: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Ask the person to confirm, unless `yes` is true. Raises ConfigError without a terminal,
    RefusedError unless the answer is yes."""
    if yes:
        return
    if not at_terminal():
        raise ConfigError(
            f"{question} Without a terminal featurelib cannot ask. Read the text above, and run "
            "the command again with --yes."
        )
    text = paint(question, "bold") if has_styles(sys.stderr) else question
    print(f"{text} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in YES:
        raise RefusedError("Not confirmed. Nothing was written or sent.")


def print_answer(answer: Answer[Any], *, as_json: bool) -> int:
    """Print an answer as text or JSON; return its exit code."""
    if as_json:
        print(answer.json())
    else:
        print_page(answer.page(None))
    return answer.exit_code


def print_page(page: Page, *, on_errors: bool = False) -> None:
    """Print a page on standard output or standard error. Styles are used only on a terminal."""
    stream = sys.stderr if on_errors else sys.stdout
    print(page.painted if has_styles(stream) else page, file=stream, flush=True)
