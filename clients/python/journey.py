"""A write waits for a person, the person approves it, the agent gets the result, and the call has a receipt."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from countersign import Countersign, NotSucceededError, RefusedError
from countersign.api import EntryView, InvocationView, NewSessionResponse

url = os.environ["COUNTERSIGN_URL"]
owner = Countersign(url, os.environ["COUNTERSIGN_TOKEN"])

# A session is an agent's place to work in. Its token is the agent's own: it can invoke, and never approve.
session: NewSessionResponse = owner.request("post", "/api/v1/sessions", body={"title": "Python"})
agent = Countersign(url, session["token"])


def next_call() -> InvocationView:
    """The next call of this agent that waits for a person."""
    while True:
        found: InvocationView
        for found in owner.iterate("/api/v1/invocations", query={"status": "pending", "session": session["id"]}):
            return found
        time.sleep(0.1)


def write(path: str) -> dict[str, str]:
    return {"path": path, "text": "hello, world"}


with ThreadPoolExecutor() as pool:
    # `invoke` returns when the call has been decided and done.
    asked = pool.submit(agent.invoke, session["id"], "files.write_text", write("python.txt"), reason="to say hello")
    pending = next_call()
    print(pending["action"], pending["params"], pending.get("reason"))
    owner.request("post", "/api/v1/invocations/{invocation}/approve", {"invocation": pending["id"]}, body={})
    done = asked.result()
    print(done["invocation"]["status"], done.get("result"))

    # Reads are allowed at once.
    read = agent.invoke(session["id"], "files.read_text", {"path": "python.txt"})
    assert read["result"]["text"] == "hello, world"

    # Every call ends with one signed receipt.
    reference = done["invocation"].get("receipt")
    assert reference is not None
    receipt: EntryView = owner.request("get", "/api/v1/receipts/{receipt}", {"receipt": reference["id"]})
    print(receipt["id"], receipt["kind"])

    # What does not succeed is an error, whether a rule or a person decided so.
    asked = pool.submit(agent.invoke, session["id"], "files.write_text", write("other.txt"))
    owner.request("post", "/api/v1/invocations/{invocation}/deny", {"invocation": next_call()["id"]}, body={"reason": "not this one"})
    try:
        asked.result()
        raise AssertionError("it was denied")
    except NotSucceededError as error:
        print(error, error.invocation.get("denied_by"))

# A request that the server refuses has a code, and a hint.
try:
    agent.invoke(session["id"], "files.write_txt")
    raise AssertionError("there is no such action")
except RefusedError as error:
    print(error, error.hint, error.problem.get("suggestions"))
