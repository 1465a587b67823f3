"""The field: every contestant of the embedded benchmark, in the order of the report."""

from benchmarks.contestants.bare import BareQueue
from benchmarks.contestants.contract import Contestant
from benchmarks.contestants.peers import HueyQueue, LitequeueQueue
from benchmarks.contestants.raw import RawQueue
from benchmarks.contestants.stores import StoreQueue

FIELD = (
    Contestant(
        name="raw",
        against="raw",
        about="sqlite3 and statements by hand, synchronous=FULL. No reaping, keys, history, counts or tokens",
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
        about="tenure's own statements and tables by plain sqlite3, synchronous=FULL: all that tenure stores, nothing "
        "of its Python",
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
        about="sqlite:///file.db (synchronous=FULL): everything that tenure promises",
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
        about="memory://: the same promises, but for one process and until it ends",
        open=lambda _: StoreQueue("memory://"),
    ),
    Contestant(
        name="litequeue",
        against="raw-normal",
        about="synchronous=NORMAL. No batch, no lease (what a dead worker took stays locked), in 0.9 no fence",
        open=LitequeueQueue,
        batches=(1,),
        has_bulk=False,
    ),
    Contestant(
        name="huey",
        against="raw",
        about="its storage alone, SQLite's default synchronous=FULL. No batch, lease, fence or completion: what is "
        "taken is gone",
        open=HueyQueue,
        batches=(1,),
        has_bulk=False,
    ),
)
