"""An agent invokes an action, a person approves it, the agent waits for the outcome, and the person pages through the audit trail.

`countersign_client` is what openapi-python-client makes of the API's description.
"""

import os

from countersign_client import AuthenticatedClient
from countersign_client.api.sessions import sessions_create
from countersign_client.api.invocations import (
    invocations_approve,
    invocations_invoke,
    invocations_list,
    invocations_show_in_session,
)
from countersign_client.models import (
    ApproveMode,
    ApproveRequest,
    GrantOfferRequest,
    GrantStateName,
    InvokeRequest,
    InvokeRequestParams,
    NewSessionRequest,
    Problem,
    Status,
)
from countersign_client.types import UNSET


def client(token: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=os.environ.get("COUNTERSIGN_URL", "http://127.0.0.1:7117"), token=token)


def answer(result):
    """The answer, or the problem as an error: branch on its `code`."""
    if result is None or isinstance(result, Problem):
        raise SystemExit(f"{result.code}: {result.detail} ({result.hint})" if result else "no answer")
    return result


owner = client(os.environ["COUNTERSIGN_TOKEN"])
session = answer(sessions_create.sync(client=owner, body=NewSessionRequest(title="Python client")))
agent = client(session.token)

# Invoke: a write is pending until a person approves it.
params = InvokeRequestParams.from_dict({"path": "python.txt", "text": "hello"})
request = InvokeRequest(action="files.write_text", params=params, reason="to show how")
asked = answer(invocations_invoke.sync(session.id, client=agent, body=request))
assert asked.invocation.status == Status.PENDING and asked.message == "Action requires approval", asked

# Approve: this call, and two more like it.
invocation = asked.invocation.id
approval = ApproveRequest(mode=ApproveMode.GRANT, grant=GrantOfferRequest(calls_max=2))
approved = answer(invocations_approve.sync(invocation, client=owner, body=approval))
assert approved.grant.state == GrantStateName.ACTIVE, approved

# Wait: the answer is held back until the call has ended.
ended = answer(invocations_show_in_session.sync(session.id, invocation, client=agent, wait="30s"))
assert ended.invocation.status == Status.SUCCEEDED, ended
assert ended.invocation.completed_at >= ended.invocation.created_at

# Page: `next` of one page is `after` of the following one.
seen, after = 0, UNSET
while True:
    page = answer(invocations_list.sync(client=owner, limit=1, count=True, after=after))
    for item in page.items:
        print(item.created_at.isoformat(), item.session_title, item.action, item.tier, item.status)
        seen += 1
    assert page.total >= seen, page.total
    if not page.next_:
        break
    after = page.next_
assert seen > 0

# A name that does not exist comes back with names that do.
wrong = invocations_invoke.sync(session.id, client=agent, body=InvokeRequest(action="files.write_txt"))
assert isinstance(wrong, Problem) and wrong.suggestions[0] == "files.write_text", wrong
