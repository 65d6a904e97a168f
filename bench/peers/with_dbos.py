"""with_dbos.py <database> <steps> <callers> <runs> <seconds> [wal]: workflows of DBOS whose steps do next to nothing.

Says when it is ready. Then, for every line that it reads, it makes at most so many runs in at most so many seconds, with so many of them at
once, and prints how many they were and how long they took. Each caller waits for the end of its run before it starts the next.
"""

import json
import os
import sqlite3
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

database, (steps, callers, runs, seconds) = sys.argv[1], map(int, sys.argv[2:6])
if sys.argv[6:] == ["wal"]:
    # It has SQLite's own defaults: a rollback journal, and commits that are synced (`synchronous` is FULL). A file remembers that it has a
    # write-ahead log instead, which is as safe, and faster where a sync takes long.
    sqlite3.connect(database.removeprefix("sqlite:///")).execute("PRAGMA journal_mode = WAL").close()
DBOS(config={"name": "bench", "system_database_url": database, "run_admin_server": False, "log_level": "ERROR"})


@DBOS.step()
def step(number):
    return {"n": number}


@DBOS.workflow()
def workflow():
    for number in range(steps):
        step(number)


# Threads that stay: the CPU time of one that has ended is not counted.
pool = ThreadPoolExecutor(callers)


def repeat():
    """One repetition: the callers take turns at what is left of the runs."""
    left, ended = iter(range(runs)), []
    lock = threading.Lock()
    began = time.perf_counter()

    def caller():
        while time.perf_counter() - began < seconds:
            with lock:
                if next(left, None) is None:
                    return
            workflow()
            ended.append(time.perf_counter())

    for done in [pool.submit(caller) for _ in range(callers)]:
        done.result()
    return {"runs": len(ended), "seconds": max(ended) - began}


DBOS.launch()
workflow()
print(json.dumps({"processes": [os.getpid()]}), flush=True)
for _ in sys.stdin:
    print(json.dumps(repeat()), flush=True)
os._exit(0)
