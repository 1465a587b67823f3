"""A Flask app, and its worker in a separate process.

    flask --app examples/flask_app.py run
    python examples/flask_app.py worker
    curl -d name=Ada localhost:5000/greetings
    curl localhost:5000/greetings/ID

The worker runs each task in the context of the app.
"""

import logging
import sys
from typing import Any

from flask import Flask, abort, current_app, request
from flask.ctx import AppContext

import tenure

app = Flask(__name__)
app.config.from_mapping(GREETING="Hello")
app.config.from_prefixed_env()

jobs = tenure.Jobs()


@jobs.around
def in_app() -> AppContext:
    """Give tasks access to the app: its configuration and its extensions."""
    return app.app_context()


@jobs.task(queue="greetings", timeout=10)
def greet(name: str) -> str:
    return f"{current_app.config['GREETING']}, {name}!"


@app.post("/greetings")
def order_greeting() -> tuple[dict[str, str], int]:
    return {"id": greet.enqueue(request.form["name"])}, 202


@app.get("/greetings/<id>")
def get_greeting(id: str) -> dict[str, Any]:
    job = jobs.get(id)
    if job is None or job.type != greet.type:
        abort(404)
    return {"state": job.state, "greeting": job.result}


if __name__ == "__main__":
    if sys.argv[1:] != ["worker"]:
        sys.exit(f"usage: {sys.argv[0]} worker")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    jobs.work(concurrency=4)
