"""The program as a whole: help, imports, errors and exit codes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tenure.cli.output import fit_widths
from tenure.cli.program import COMMAND_NAMES, SECTIONS, program
from tenure.cli.reference import reference
from tests.cli.shell import Shell
from tests.processes.stage import PATIENCE
from tests.tiers import starts_processes

ROOT = Path(__file__).parents[2]


def commands() -> list[click.Command]:
    context = click.Context(program)
    found = [command for name in COMMAND_NAMES if (command := program.get_command(context, name)) is not None]
    inner = [each for command in found if isinstance(command, click.Group) for each in command.commands.values()]
    return found + inner


@starts_processes
def test_help_loads_nothing_but_itself() -> None:
    code = "import sys; from tenure.cli.program import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()

    assert {each for each in loaded if each.startswith("tenure.")} == {
        "tenure.cli",
        "tenure.cli.exit_codes",
        "tenure.cli.program",
        "tenure.errors",
    }
    assert {"rich", "sqlite3", "asyncio", "socket", "subprocess", "http"}.isdisjoint(loaded)


def test_help_fits_80_columns_and_names_every_command(shell: Shell) -> None:
    result = shell.run("--help")

    assert result.code == 0
    assert all(name in result.out for name in COMMAND_NAMES)
    assert max(map(len, result.lines)) <= 80
    assert shell.run().out == result.out


def test_every_command_says_of_itself_what_the_overview_says() -> None:
    context = click.Context(program)

    for section in SECTIONS.values():
        for name, text in section.items():
            command = program.get_command(context, name)
            assert command is not None
            assert command.short_help == text


@pytest.mark.parametrize("command", commands(), ids=lambda each: each.name)
def test_every_command_teaches_by_example_in_80_columns(command: click.Command) -> None:
    text = command.get_help(click.Context(command, info_name=command.name, max_content_width=80, terminal_width=80))

    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_command_takes_json() -> None:
    groups = [each.name for each in commands() if isinstance(each, click.Group)]
    without = [each.name for each in commands() if "is_json" not in {param.name for param in each.params}]

    assert without == groups


def test_the_manual_is_what_the_commands_say() -> None:
    written = (ROOT / "docs" / "commands.md").read_text("utf-8")

    assert written == reference(), "regenerate the page: python -m tenure.cli.reference > docs/commands.md"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sttas"], "unknown command 'sttas'; did you mean 'stats'?"),
        (["stats", "--ulr", "x"], "no such option"),
        (["stats", "--url"], "requires an argument"),
        (["stats"], "no store at 'sqlite:///tenure.db' (the default)"),
        (["stats", "--url", "sqlite:///typo.db"], "no store at 'sqlite:///typo.db' (from --url)"),
        (["stats", "--url", "sqlite:///no/folder.db"], "no store at"),
        (["migrate", "--url", "sqlite:///no/folder.db"], "the folder of"),
        (["stats", "--url", "nonsense"], "'nonsense' is not a store URL"),
        (["stats", "--url", "mysql://ada:secret@h/db"], "'mysql://ada:***@h/db' is not a store URL"),
        (["stats", "--url", "memory://"], "does not outlive this command"),
        (["stats", "--app", "nowhere:jobs"], "no module 'nowhere'"),
        (["stats", "--app", "nowhere"], "invalid object 'nowhere': use MODULE:OBJECT, such as app:jobs"),
        (["stats", "--app", "json:dumps"], "json:dumps has type function; pass a Jobs or a Table"),
        (["stats", "--app", "json:dump_s"], "'json' has no 'dump_s'; did you mean 'dumps'?"),
        (["jobs", "lsit"], "no such command 'lsit'"),
        (["jobs", "list", "--state", "done"], "'done' is not one of"),
        (["jobs", "list", "--since", "yesterday"], "invalid duration 'yesterday': use 90, 30s, 10m, 1h30m or 7d"),
        (["jobs", "retry", "--all", "--rate", "fast"], "invalid rate 'fast': use 20/s"),
        (["jobs", "show"], "missing argument"),
        (["explain", "a", "b"], "unexpected extra argument"),
    ],
)
def test_misuse_is_told_in_one_line_with_exit_2(shell: Shell, arguments: list[str], said: str) -> None:
    result = shell.run(*arguments)

    assert result.code == 2
    assert said in result.err
    assert result.err.startswith("tenure: ")
    assert result.err.count("\n") == 1
    assert result.out == ""
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize("verb", ["jobs show", "jobs retry", "jobs cancel", "jobs delete", "explain"])
def test_an_unknown_id_is_exit_2(made: Shell, verb: str) -> None:
    result = made.run(*verb.split(), "nobody")

    assert result.code == 2
    assert "job 'nobody' not found" in result.err
    assert result.err.count("\n") == 1


def test_an_app_whose_own_code_fails_is_told_with_the_place(shell: Shell) -> None:
    shell.write("broken_app.py", "import json\n\njson.loads('')\n")
    shell.write("missing_app.py", "import nothing_of_this_name\n")
    shell.write("typo_app.py", "def (:\n")

    broken = shell.run("stats", "--app", "broken_app:jobs")
    missing = shell.run("stats", "--app", "missing_app:jobs")
    typo = shell.run("stats", "--app", "typo_app:jobs")

    assert (broken.code, missing.code, typo.code) == (2, 2, 2)
    assert "cannot import 'broken_app': JSONDecodeError" in broken.err
    assert "broken_app.py:3" in broken.err
    assert "No module named 'nothing_of_this_name'" in missing.err
    assert "typo_app.py:1" in typo.err
    assert broken.err.count("\n") == missing.err.count("\n") == typo.err.count("\n") == 1


def test_a_store_that_does_not_answer_is_exit_2(made: Shell) -> None:
    (made.folder / "tenure.db").write_bytes(b"not a database, whatever its name says" * 100)

    result = made.run("stats")

    assert result.code == 2
    assert result.err.count("\n") == 1


@starts_processes
def test_output_that_cannot_be_written_is_told(made: Shell) -> None:
    with Path("/dev/full").open("w") as full:
        process = made.start("config", stdout=full)
        _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert err == "tenure: No space left on device\n"


@starts_processes
def test_it_speaks_ascii_where_nothing_else_is_known(made: Shell) -> None:
    made.run("enqueue", "send", '{"to": "Åsa ☃"}')
    id = made.run("jobs", "list", "--json").records[0]["id"]
    process = made.start("jobs", "show", id, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})

    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert "?sa" in out
    assert err == ""


def test_the_commands_of_the_readme_can_be_run() -> None:
    """Only parsed: the examples need an app that does not exist."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = [
        shlex.split(command, comments=True)
        for command in re.findall(r"^(?:while )?tenure ([^;\n]*)", text, flags=re.MULTILINE)
    ]

    assert len(found) >= 6
    for name, *arguments in found:
        context = click.Context(program)
        command = program.get_command(context, name)
        assert command is not None
        command.make_context(name, arguments, parent=context)


def test_a_table_gives_way_to_a_narrow_terminal_but_for_its_first_column() -> None:
    assert fit_widths([36, 10, 8, 9], 80) == [36, 10, 8, 9]
    assert fit_widths([36, 30, 20, 9], 80) == [36, 14, 15, 9]
    assert fit_widths([36, 30, 20, 9], 10) == [36, 4, 4, 4]


def test_there_are_no_colours_without_a_terminal(made: Shell) -> None:
    made.run("enqueue", "send")

    assert "\x1b" not in made.run("jobs", "list").out
