"""The deployment examples are consistent and match the behaviour of the worker."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenure.cli.commands.work import work
from tenure.client.worker_options import settings_of
from tenure.service.health import PAGES, parse_address

DEPLOY = Path(__file__).parents[1] / "examples" / "deploy"
UNIT = DEPLOY / "tenure.service"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))

OPTIONS = {name for param in work.params for name in param.opts}
AFTER_THE_GRACE = 15.0
"""Longest time, in seconds, that a stop takes after the grace period, as documented in docs/worker.md."""


def unit() -> dict[str, dict[str, list[str]]]:
    """Return the sections of the unit as systemd reads them; a key can occur several times."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in UNIT.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        else:
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def service() -> dict[str, str]:
    """Return the section `Service` of the unit, in which no key is repeated."""
    return {key: value for key, (value,) in unit()["Service"].items()}


def instructions() -> dict[str, str]:
    """Return the instructions of the Dockerfile; of repeated instructions, the last."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return dict(line.split(" ", 1) for line in text.splitlines() if line)


def exec_form(text: str) -> list[str]:
    """Return the words of a command in exec form."""
    words = ast.literal_eval(text)
    assert isinstance(words, list)
    assert all(isinstance(word, str) for word in words)
    return words


def deployment() -> Any:
    (found,) = [each for each in OBJECTS if each["kind"] == "Deployment"]
    return found


def pod() -> Any:
    return deployment()["spec"]["template"]["spec"]


def container() -> Any:
    (found,) = pod()["containers"]
    return found


def commands() -> dict[str, list[str]]:
    """Return the worker command of each example."""
    return {
        "systemd": shlex.split(service()["ExecStart"]),
        "docker": exec_form(instructions()["CMD"]),
        "kubernetes": container()["args"],
    }


def options_of(command: list[str]) -> dict[str, str]:
    """Return the options of a command line with their values."""
    words = [part for word in command for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return {word: words[at + 1] for at, word in enumerate(words) if word.startswith("--")}


def complaints_of_systemd(path: Path) -> list[str]:
    """Return the problems that `systemd-analyze` finds in a unit; none if systemd is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return []
    found = subprocess.run([program, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
    return [line for line in found.stderr.splitlines() if path.name in line]


@pytest.fixture(params=["systemd", "docker", "kubernetes"])
def command(request: pytest.FixtureRequest) -> list[str]:
    return commands()[request.param]


def test_each_starts_a_worker_with_options_that_there_are(command: list[str]) -> None:
    program, verb, target, *_ = command

    assert (Path(program).name, verb, target) == ("tenure", "work", "app:jobs")
    # Parse the options as the program does.
    with work.make_context("work", command[2:]) as context:
        assert context.params["processes"] == 2


def test_every_command_line_in_them_has_options_that_there_are() -> None:
    texts = [path.read_text() for path in [*DEPLOY.iterdir(), DEPLOY.parents[1] / "docs" / "worker.md"]]
    found = [line for text in texts for line in re.findall(r"tenure work (?:app:jobs )?[^`\n#|]*", text)]

    assert len(found) >= 2
    assert {word.partition("=")[0] for line in found for word in shlex.split(line) if word.startswith("--")} <= OPTIONS


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("systemd", float(service()["TimeoutStopSec"])),
        ("docker", float(re.findall(r"docker run .*--stop-timeout (\d+)", DOCKERFILE)[0])),
        ("kubernetes", float(pod()["terminationGracePeriodSeconds"])),
    ],
)
def test_each_waits_longer_for_a_stop_than_a_stop_takes(name: str, waits: float) -> None:
    grace = float(options_of(commands()[name]).get("--grace", settings_of({}, {"type": None}).grace))

    assert waits > grace + AFTER_THE_GRACE


def test_the_unit_is_told_by_the_service_when_it_is_ready_and_that_it_turns() -> None:
    settings = service()

    assert settings["Type"] == "notify"
    assert float(settings["WatchdogSec"]) > 0
    assert settings["Restart"] == "on-failure"
    assert settings["KillMode"] == "mixed"


def test_the_file_of_the_unit_is_where_it_may_write() -> None:
    settings = service()

    assert settings["DynamicUser"] == "yes"
    assert settings["Environment"].split() == [
        f"TENURE_URL=sqlite:////var/lib/{settings['StateDirectory']}/tenure.db",
        "PYTHONUNBUFFERED=1",
    ]


def test_the_unit_is_well_formed_and_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    # Replace programs that are not installed on the test machine.
    text = UNIT.read_text().replace("/srv/app/.venv/bin/tenure", sys.executable).replace("/srv/app", "/")
    (tmp_path / UNIT.name).write_text(text)

    assert list(unit()) == ["Unit", "Service", "Install"]
    assert all(re.fullmatch("[A-Z][A-Za-z]+", key) for section in unit().values() for key in section)
    assert complaints_of_systemd(tmp_path / UNIT.name) == []


def test_the_container_runs_without_a_shell_and_not_as_root() -> None:
    found = instructions()

    assert found["FROM"] == "python:3.13-slim"
    assert found["STOPSIGNAL"] == "SIGTERM"
    assert found["USER"] == str(pod()["securityContext"]["runAsUser"])
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert "ENTRYPOINT" not in found


def test_the_container_asks_the_worker_whether_it_is_alive() -> None:
    found = instructions()
    program, option, script = exec_form(found["HEALTHCHECK"].split(" CMD ")[1])

    assert (program, option) == ("python", "-c")
    compile(script, "HEALTHCHECK", "exec")
    host, port, page = re.findall(r"http://([\d.]+):(\d+)(/\w+)'", script)[0]
    assert (host, page, page in PAGES) == ("127.0.0.1", "/livez", True)
    assert port == found["EXPOSE"] == str(parse_address(options_of(commands()["docker"])["--health"]).port)


def test_the_file_of_the_container_is_on_a_volume() -> None:
    volume = instructions()["VOLUME"]
    (mount,) = container()["volumeMounts"]
    variables = [f"{each['name']}={each['value']}" for each in container()["env"]]

    assert variables == [f"TENURE_URL=sqlite:///{volume}/tenure.db", "PYTHONUNBUFFERED=1"]
    assert mount["mountPath"] == volume
    assert re.findall(r"^ENV (.*)$", DOCKERFILE, flags=re.MULTILINE) == variables


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "/readyz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
)
def test_the_pod_is_asked_for_pages_that_there_are(probe: str, path: str) -> None:
    (port,) = container()["ports"]
    address = parse_address(options_of(commands()["kubernetes"])["--health"])

    assert container()[probe]["httpGet"] == {"path": path, "port": port["name"]}
    assert path in PAGES
    assert (address.host, address.port) == ("0.0.0.0", port["containerPort"])  # noqa: S104 - the kubelet connects from outside the pod


def test_the_pod_is_scraped_where_the_metrics_are() -> None:
    annotations = deployment()["spec"]["template"]["metadata"]["annotations"]

    assert annotations["prometheus.io/path"] in PAGES
    assert annotations["prometheus.io/port"] == str(container()["ports"][0]["containerPort"])


def test_a_file_is_used_by_one_pod_at_a_time() -> None:
    (claim,) = [each for each in OBJECTS if each["kind"] == "PersistentVolumeClaim"]
    (volume,) = pod()["volumes"]

    assert (deployment()["spec"]["replicas"], deployment()["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert deployment()["spec"]["selector"]["matchLabels"] == deployment()["spec"]["template"]["metadata"]["labels"]


def test_every_example_of_deployment_is_named_in_the_readme_and_the_docs() -> None:
    readme, docs = DEPLOY.parent / "README.md", DEPLOY.parents[1] / "docs" / "worker.md"

    for path in DEPLOY.iterdir():
        assert f"(deploy/{path.name})" in readme.read_text()
        assert f"(../examples/deploy/{path.name})" in docs.read_text()
