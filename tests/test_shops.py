"""The examples with the user's data on PostgreSQL run as programs and do what their docs say."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

import tenure
from tests.connections.databases import of_database
from tests.servers.addresses import free_port
from tests.servers.postgres import Server
from tests.tiers import only_in_all

EXAMPLES = Path(__file__).parents[1] / "examples"
SHOP = EXAMPLES / "django_shop"
PATIENCE = 120.0


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"shop_{uuid4().hex}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        yield of_database(postgres.url, name)
        connection.execute(f"drop database {name} with (force)".encode())


@contextmanager
def started(folder: Path, database: str, *arguments: str | Path, until: str) -> Iterator[None]:
    """Start a program, wait until it prints `until`, and stop the program on exit."""
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        cwd=folder,
        env=environment(database),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if until in line:
                break
        yield
    finally:
        process.terminate()
        process.communicate()


def environment(database: str) -> Mapping[str, str]:
    return {**os.environ, "DATABASE_URL": database, "PYTHONWARNINGS": "ignore"}


def see_orders_and_jobs_go_together(url: str, jobs: tenure.Jobs, numbers: str) -> None:
    """Place an order that is shipped, and an order that is rolled back together with its job."""
    placed = httpx.post(f"{url}/orders{numbers}", params={"total": 12}, data={"total": "12"}, timeout=PATIENCE)
    refused = httpx.post(f"{url}/orders{numbers}", params={"total": 500}, data={"total": "500"}, timeout=PATIENCE)

    assert (placed.status_code, refused.status_code) == (201, 409)
    order, job_id = placed.json()["order"], placed.json()["job"]
    jobs.wait_for(job_id, timeout=PATIENCE)
    assert httpx.get(f"{url}/orders/{order}{numbers}", timeout=PATIENCE).json() == {"state": "shipped", "parcels": 1}
    assert [job.id for job in jobs.find(type="ship")] == [job_id]
    (thanks,) = jobs.find(type="thank")
    jobs.wait_for(thanks.id, timeout=PATIENCE)
    assert httpx.get(f"{url}/orders/{order + 1}{numbers}", timeout=PATIENCE).status_code == 404


@only_in_all
def test_the_fastapi_app_commits_an_order_with_its_job(database: str) -> None:
    """Slow: a web server and a worker start."""
    port = str(free_port())
    server = ("-m", "uvicorn", "--app-dir", EXAMPLES, "--port", port, "fastapi_sqlalchemy:app")

    with started(EXAMPLES, database, *server, until="running on http"), tenure.Jobs(database) as jobs:
        see_orders_and_jobs_go_together(f"http://127.0.0.1:{port}", jobs, "")


@only_in_all
def test_the_django_shop_commits_an_order_with_its_job(database: str) -> None:
    """Slow: Django migrates, and a web server and a worker start."""
    port = str(free_port())
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--run-syncdb"],
        cwd=SHOP,
        env=environment(database),
        check=True,
        capture_output=True,
    )
    server = started(SHOP, database, "manage.py", "runserver", "--noreload", port, until="Quit the server")
    worker = started(SHOP, database, "manage.py", "work", until="tasks ship")

    with server, worker, tenure.Jobs(database) as jobs:
        see_orders_and_jobs_go_together(f"http://127.0.0.1:{port}", jobs, "/")
