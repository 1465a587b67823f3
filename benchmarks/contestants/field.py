"""All contestants of the embedded benchmark, in the order of the report."""

from benchmarks.contestants.bare import BareQueue
from benchmarks.contestants.contract import Contestant
from benchmarks.contestants.peers import HueyQueue, LitequeueQueue
from benchmarks.contestants.raw import RawQueue
from benchmarks.contestants.stores import StoreQueue

FIELD = (
    Contestant(
        name="raw",
        against="raw",
        about="hand-written sqlite3 statements, synchronous=FULL. No reaping, keys, history, counts or tokens",
        open=lambda folder: RawQueue(folder, "full"),
        shares_a_file=True,
    ),
    Contestant(
        name="raw-normal",
        against="raw-normal",
        about="the same, synchronous=NORMAL: a power cut may undo the last commits",
        open=lambda folder: RawQueue(folder, "normal"),
    ),
    Contestant(
        name="bare",
        against="raw",
        about="tenure's statements and tables with plain sqlite3, synchronous=FULL: all that tenure stores, none of "
        "its Python code",
        open=lambda folder: BareQueue(folder, "full"),
    ),
    Contestant(
        name="bare-normal",
        against="raw-normal",
        about="the same, synchronous=NORMAL",
        open=lambda folder: BareQueue(folder, "normal"),
    ),
    Contestant(
        name="tenure",
        against="bare",
        about="sqlite:///file.db (synchronous=FULL): all guarantees of tenure",
        open=lambda folder: StoreQueue(f"sqlite:///{folder / 'tenure.db'}"),
        shares_a_file=True,
    ),
    Contestant(
        name="tenure-normal",
        against="bare-normal",
        about="sqlite:///file.db?synchronous=normal",
        open=lambda folder: StoreQueue(f"sqlite:///{folder / 'tenure.db'}?synchronous=normal"),
    ),
    Contestant(
        name="memory",
        against="raw-normal",
        about="memory://: the same guarantees, within one process and until it ends",
        open=lambda _: StoreQueue("memory://"),
    ),
    Contestant(
        name="litequeue",
        against="raw-normal",
        about="synchronous=NORMAL. No batch, no lease (jobs of a dead worker stay locked), in 0.9 no fence",
        open=LitequeueQueue,
        batches=(1,),
        has_bulk=False,
    ),
    Contestant(
        name="huey",
        against="raw",
        about="only the storage, SQLite's default synchronous=FULL. No batch, lease, fence or completion: a claimed "
        "job is deleted",
        open=HueyQueue,
        batches=(1,),
        has_bulk=False,
    ),
)
