"""with_celery.py <redis> <steps> <runs> <seconds>: chains of Celery's tasks that do next to nothing, with a worker of its own.

Says when it is ready. Then, for every line that it reads, it sends so many chains, waits until all have ended, at most so many seconds, and
prints how many ended and how long they took. `with_celery.py <redis> worker` is the worker.

Redis syncs its log at every write, as a database does at every commit, and a task is taken off its queue after it has ended: with less, a
crash loses runs.
"""

import json
import os
import subprocess
import sys
import threading
import time

import redis
from celery import Celery, chain
from celery.exceptions import TimeoutError as Late

url = sys.argv[1]
app = Celery("bench", broker=url, backend=url)
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, broker_connection_retry_on_startup=True)


@app.task
def step(before, number):
    return {"n": number}


def main(steps, runs, seconds):
    server = redis.Redis.from_url(url)
    server.config_set("appendfsync", "always")
    server.config_set("appendonly", "yes")
    # It has as many processes as there are cores, unless it is told otherwise.
    started = [sys.executable, __file__, url, "worker"]
    worker = subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        plan(steps).apply_async().get(timeout=60)
        processes = [os.getpid(), server.info("server")["process_id"]]
        print(json.dumps({"processes": processes, "parent": worker.pid}), flush=True)
        for _ in sys.stdin:
            print(json.dumps(repeat(steps, runs, seconds)), flush=True)
    finally:
        worker.stdin.close()
        worker.wait()
        server.config_set("appendonly", "no")


def work():
    """Works until whoever started it is gone."""

    def watch():
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    app.worker_main(["worker", "--loglevel", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"])


def plan(steps):
    return chain(step.s(None, 0), *(step.s(number) for number in range(1, steps)))


def repeat(steps, runs, seconds):
    began = time.perf_counter()
    sent = [plan(steps).apply_async() for _ in range(runs)]
    ended = 0
    for result in sent:
        left = seconds - (time.perf_counter() - began)
        if left <= 0:
            break
        try:
            result.get(timeout=left)
        except Late:
            break
        ended += 1
    return {"runs": ended, "seconds": time.perf_counter() - began}


if sys.argv[2] == "worker":
    work()
else:
    main(*map(int, sys.argv[2:5]))
