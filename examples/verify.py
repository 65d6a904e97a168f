#!/usr/bin/env python3
"""Verifies an audit-log export (a "bundle") with nothing but Python's standard library.

    python3 verify.py BUNDLE --key KEY.pem [--checkpoint NOTE.txt]

Exit codes: 0 verified, 1 not verified, 2 wrong usage. In a refusal, line 0 stands for NOTE.txt.
"""
import argparse, base64, functools, hashlib, json, re, sys
from datetime import datetime, timedelta

class Refused(Exception):
    pass

def need(condition, why):
    if not condition:
        raise Refused(why)

# ---- Ed25519 (RFC 8032). A point is (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z: adding needs no division.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
D2 = 2 * D % P
ZERO = (0, 1, 1, 0)

def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = D2 * p[3] * q[3] % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P

def is_small_order(p):
    for _ in range(3):
        p = add(p, p)
    return p[0] == 0 and p[1] == p[2]

def decode_point(data):
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * v**3 * pow(u * v**7, (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * pow(2, (P - 1) // 4, P) % P
    need(v * x * x % P == u, "a key is not a point of the curve")
    need(y < P and (x or not sign), "a key is not encoded canonically")
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P

def encode_point(p):
    inverse = pow(p[2], -1, P)
    return (p[1] * inverse % P | (p[0] * inverse % P & 1) << 255).to_bytes(32, "little")

def multiples(p):
    """Row i holds 0 to 15 times 16**i * p, so that a multiplication is only 64 additions."""
    rows = []
    for _ in range(64):
        row = [ZERO]
        for _ in range(15):
            row.append(add(row[-1], p))
        rows.append(row)
        p = add(row[15], p)
    return rows

def multiply(rows, scalar):
    return functools.reduce(add, (row[scalar >> 4 * i & 15] for i, row in enumerate(rows)))

BASE = multiples(decode_point((4 * pow(5, -1, P) % P).to_bytes(32, "little")))

@functools.lru_cache(maxsize=16)
def negated_key(key):
    """The table of minus the key. A log has few keys, so each table is made once."""
    x, y, z, t = decode_point(key)
    need(not is_small_order((x, y, z, t)), "a key is of small order")
    return multiples((P - x, y, z, P - t))

def signature_fits(key, message, signature):
    """R must be the encoding of s*B - h*A. Comparing bytes refuses every other encoding of R."""
    s = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or s >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    r = add(multiply(BASE, s), multiply(negated_key(key), h))
    return encode_point(r) == signature[:32] and not is_small_order(r)

# ---- JSON and the small formats

STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')

def no_duplicates(pairs):
    need(len(dict(pairs)) == len(pairs), "an object holds a key twice")
    return dict(pairs)

def parse(data):
    no_fraction = lambda _: need(False, "a number is not a whole number")
    try:
        text = data.decode()
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_float=no_fraction, parse_constant=no_fraction)
        json.dumps(value, ensure_ascii=False).encode()  # fails on half of a surrogate pair
    except ValueError:
        raise Refused("not JSON in UTF-8") from None
    need(isinstance(value, dict), "not a JSON object")
    need(not re.search(r"\s", STRING.sub("", text)), "white space between the parts of the JSON")
    return value

def canonical(value):
    """RFC 8785, for values without fractions. Python escapes strings just as the RFC asks."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(canonical(key) + ":" + canonical(value[key]) for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    need(type(value) is not int or abs(value) < 2**53, "a number is too large for canonical JSON")
    return json.dumps(value, ensure_ascii=False)

def only_fields(value, fields, what):
    need(isinstance(value, dict) and set(value) == set(fields.split()), f"{what} has not just the fields {fields}")

def get(value, field, kind=str):
    need(isinstance(value.get(field), kind), f"`{field}` is missing or of a wrong type")
    return value[field]

def whole(value, what):
    """A whole number, be it a JSON number or decimal text."""
    if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,18}", value):
        return int(value)
    need(type(value) is int and value >= 0, f"{what} is not a whole number")
    return value

def time(value, field):
    """Stays text: times of this one shape sort as text."""
    when = get(value, field)
    try:
        same = datetime.strptime(when, "%Y-%m-%dT%H:%M:%S.%fZ").isoformat(timespec="microseconds") + "Z"
    except ValueError:
        same = None
    need(when == same, f"`{field}` is not a time")
    return when

def days_before(when, days):
    """A century is as good as for ever, and can be counted back."""
    then = datetime.strptime(when, "%Y-%m-%dT%H:%M:%S.%fZ") - timedelta(days=min(days, 36500))
    return then.isoformat(timespec="microseconds") + "Z"

def unbase64(value, what, length=None):
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError:
        raise Refused(f"{what} is not base64") from None
    # Encoding again refuses stray bits in the last digit.
    need(base64.b64encode(data).decode() == value, f"{what} is not base64")
    need(length in (None, len(data)), f"{what} is not {length} bytes long")
    return data

def sha256(data):
    return hashlib.sha256(data).hexdigest()

def key_id(key):
    return sha256(key)[:16]

# ---- The tree and its checkpoints. A tree is kept as the roots of its complete subtrees, the largest first.

def node(right, left):
    return hashlib.sha256(b"\x01" + left + right).digest()

def grow(roots, size, leaf):
    roots.append(leaf)
    while size % 2:  # each 1 at the end of `size` is a subtree as large as the last one
        roots.append(node(roots.pop(), roots.pop()))
        size //= 2

def root_of(roots):
    return functools.reduce(node, reversed(roots))

def parse_note(note, log):
    """The parts of a signed note: size, root, signed bytes, and (name, 4 bytes and signature) of each signer."""
    head, gap, tail = note.partition("\n\n")
    lines, signatures = head.split("\n"), [line.split(" ") for line in tail[:-1].split("\n")]
    need(gap and tail.endswith("\n") and len(lines) == 3, "the checkpoint is not a signed note of three lines")
    need(lines[0] == "countersign/" + log, "the checkpoint is of another log")
    for parts in signatures:
        need(len(parts) == 3 and parts[0] == "\u2014" and parts[1], "a signature line of the checkpoint is malformed")
    signed = [(name, unbase64(data, "the checkpoint's signature")) for _, name, data in signatures]
    return whole(lines[1], "the size"), unbase64(lines[2], "the root", 32), (head + "\n").encode(), signed

def check_note_signed(origin, key, message, signatures):
    """As in C2SP, lines of other signers are passed over, and every line of this key must fit."""
    tag = hashlib.sha256(origin.encode() + b"\n\x01" + key).digest()[:4]
    ours = [data[4:] for name, data in signatures if name == origin and data[:4] == tag]
    need(ours, "the checkpoint is not signed by the checkpoint key in force")
    need(all(signature_fits(key, message, one) for one in ours), "the checkpoint's signature does not fit")

# ---- Who may do what: people, their tokens and their answers (rules 3 and 4), and changes of rules (rule 9)

ROLES = ("viewer", "member", "approver", "admin", "owner")
LOWEST = {"read": 0, "read_session": 0, "invoke": 1, "create_session": 1, "approve": 2, "manage_policy": 3, "manage_identity": 3}

def user_of(principal):
    """The user behind `user:usr_…`; None for any other principal."""
    is_user = isinstance(principal, str) and principal.startswith("user:")
    return principal[5:] if is_user else None

def maker(body):
    """Who made the entry, or None."""
    return get(body, "by") if body.get("by") is not None else None

def rank(role):
    need(role in ROLES, "unknown role")
    return ROLES.index(role)

def is_under_way(end, when):
    """Whether a request that was permitted before `end` may be written only now."""
    moment = lambda text: datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return moment(when) < moment(end) + timedelta(seconds=60)

class People:
    def __init__(self):
        self.users = {}        # id -> {"rank", "given": by somebody, "able": seq since which they may answer, "disabled", "lost": [(rank, until)]}
        self.tokens = {}       # id -> {"holder", "since": seq of its redemption, "expires_at", "scopes", "answers": a user}
        self.agents = {}       # principal -> the user who owns the agent
        self.automations = {}  # principal -> {version: the user who saved it}
        self.revoked = {}      # id -> when
        self.invitations = {}  # id -> (user, expires_at), only those that can still be redeemed
        self.subjects = {}     # (issuer, subject) -> (user, seq of their first sign-in)

    def identity(self, seq, when, body):
        change = get(body, "change", dict)
        step = getattr(self, "on_" + get(change, "identity"), None)
        need(step, "unknown change of identity")
        step(change, seq=seq, when=when, by=maker(body))

    def known(self, user):
        need(isinstance(user, str) and user in self.users, "the log has not created this user")
        return self.users[user]

    def active(self, user):
        need(not self.known(user)["disabled"], "the user is disabled")
        return self.users[user]

    def ranks(self, user, when):
        """The ranks that count as the user's: the present one, and those lost a moment ago."""
        known = self.known(user)
        has = [] if known["disabled"] else [known["rank"]]
        return has + [lost for lost, until in known["lost"] if is_under_way(until, when)]

    def lose_rank(self, user, when):
        known = self.users[user]
        known["lost"] = [one for one in known["lost"] if is_under_way(one[1], when)] + [(known["rank"], when)]

    def acts(self, user, when):
        has = self.ranks(user, when)
        need(has, "the user is disabled")
        return max(has)

    def acted_on(self, user, when):
        return min(self.ranks(user, when) or [self.known(user)["rank"]])

    def owner(self, principal):
        """The user whose calls these are, or None where the log does not say so."""
        if not isinstance(principal, str) or user_of(principal) is not None:
            return user_of(principal)
        if principal.startswith("service:"):
            return self.tokens.get(principal[len("service:"):], {}).get("answers")
        if principal in self.automations:
            return self.automations[principal][max(self.automations[principal])]
        return self.agents.get(principal)

    def owner_of(self, intent):
        """The user whose call it is. The intent of an automation may name them."""
        principal = intent.get("principal")
        if not isinstance(principal, str) or not principal.startswith("automation:") or intent.get("owner") is None:
            return self.owner(principal)
        need(get(intent, "owner") in self.automations.get(principal, {}).values(), "its owner saved no version of the automation")
        return intent["owner"]

    def is_valid(self, token, when):
        made = self.tokens.get(token) if isinstance(token, str) else None
        return made is not None and token not in self.revoked and (made["expires_at"] is None or when < made["expires_at"])

    def was_valid(self, token, when):
        made = self.tokens.get(token) if isinstance(token, str) else None
        return made is not None and all(is_under_way(end, when) for end in (self.revoked.get(token), made["expires_at"]) if end)

    def held(self, token, by, when):
        need(self.is_valid(token, when) and self.tokens[token]["holder"] == by, "the token is not theirs, or is not valid")
        return self.tokens[token]

    def may(self, by, permission, when):
        """The rank of the person who has the permission; -1 for a service that has it."""
        need(isinstance(permission, str) and permission in LOWEST, "unknown permission")
        if user_of(by) is not None:
            has = self.acts(user_of(by), when)
            need(has >= LOWEST[permission], f"their role has not the permission {permission}")
            return has
        need(isinstance(by, str) and by.startswith("service:"), f"nobody with the permission {permission} made it")
        token = by[len("service:"):]
        need(self.was_valid(token, when) and permission in self.tokens[token]["scopes"], f"the service has not {permission}")
        self.acts(self.tokens[token]["answers"], when)
        return -1

    def acts_on(self, by, role_rank, when):
        own = self.may(by, "manage_identity", when)
        need(own >= role_rank or (own < 0 and role_rank < LOWEST["approve"]), "they cannot act on this role")

    def is_first(self, user):
        """Whether the first owner is the only user, and no user has a token."""
        return list(self.users) == [user] and not any(user_of(made["holder"]) for made in self.tokens.values())

    def on_user_created(self, change, seq, when, by):
        need(get(change, "user") not in self.users, "a user is created twice")
        has = rank(change.get("role"))
        if self.users or by is not None or change["role"] != "owner":
            self.acts_on(by, has, when)
        self.users[change["user"]] = {"rank": has, "given": has, "able": seq, "disabled": False, "lost": []}

    def role_changed(self, change, seq, when, by):
        self.acts(change.get("user"), when)
        user, after = self.known(change["user"]), rank(change.get("role"))
        if by is not None or user.get("signed_in") != after:  # what a sign-in has just given, nobody gives
            self.acts_on(by, max(self.acted_on(change["user"], when), after), when)
        need(user_of(by) != change["user"], "they change their own role")
        if user["rank"] < LOWEST["approve"]:  # going from approver to admin keeps the first seq
            user["able"] = seq
        self.lose_rank(change["user"], when)
        user["rank"], user["signed_in"] = after, None
        if by is not None:
            user["given"] = after

    def on_user_disabled(self, change, when, by, **_):
        self.acts_on(by, self.acted_on(change.get("user"), when), when)
        self.lose_rank(change["user"], when)
        self.users[change["user"]]["disabled"] = True

    def on_invited(self, change, when, by, **_):
        self.acts(change.get("user"), when)
        if by is not None or not self.is_first(change["user"]):
            self.acts_on(by, self.acted_on(change["user"], when), when)
        self.invitations = {key: value for key, value in self.invitations.items() if value[0] != change["user"]}
        self.invitations[get(change, "invitation")] = (change["user"], time(change, "expires_at"))

    def on_invitation_redeemed(self, change, seq, when, by):
        user, expires_at = self.invitations.pop(get(change, "invitation"), (None, None))
        need(user and user == change.get("user") and by is None, "this user has no such open invitation")
        need(when < expires_at, "the invitation has expired")
        self.new_token(change, "user:" + user, seq)

    def on_signed_in(self, change, seq, by, **_):
        need(by is None, "a sign-in is made by somebody")
        who, user, has = (get(change, "issuer"), get(change, "subject")), get(change, "user"), rank(change.get("role"))
        if who not in self.subjects and user not in self.users:
            self.subjects[who] = (user, seq)
            self.users[user] = {"rank": has, "given": rank("member"), "able": seq, "disabled": False, "lost": []}
        known, since = self.subjects.get(who, (None, None))
        need(known == user, "the issuer knows somebody else by this subject")
        need(has <= self.active(user)["given"], "a sign-in gives a role above the one that somebody gave")
        self.users[user]["signed_in"] = has
        self.new_token(change, "user:" + user, since)

    def on_token_made(self, change, seq, when, by):
        holder, parent, answers = get(change, "holder"), change.get("with"), None
        if user_of(holder) is not None:
            if not (by is parent is None and self.is_first(user_of(holder))):
                need(by == holder, "a user's token is made by somebody else")
                self.acts(user_of(holder), when)
                seq = self.held(parent, by, when)["since"]
        elif holder.startswith("agent:"):
            self.may(by, "create_session", when)
            self.agents.setdefault(holder, self.owner(by))
        else:
            need(holder == "service:" + get(change, "token"), "the token is of nobody who has tokens")
            need("approve" not in get(change, "scopes", list), "a service may approve")
            for permission in [*change["scopes"], "manage_identity"]:
                self.may(by, permission, when)
            answers = self.owner(self.held(parent, by, when)["holder"])
        self.new_token(change, holder, seq, answers)

    def on_token_revoked(self, change, when, by, **_):
        token = get(change, "token")
        is_made = token in self.tokens and token not in self.revoked
        need(is_made or token in self.invitations, "the token is not valid")
        user = self.invitations[token][0] if token in self.invitations else user_of(self.tokens[token]["holder"])
        is_redeeming = by is None and is_made and any(user == invited for invited, _ in self.invitations.values())
        if user is None:
            self.may(by, "manage_identity", when)
        elif user_of(by) == user:
            self.acts(user, when)
        elif not is_redeeming:
            self.acts_on(by, self.acted_on(user, when), when)
        self.invitations.pop(token, None)
        self.revoked[token] = when

    def on_link_made(self, change, when, by, **_):
        token = change.get("token")
        need(self.was_valid(token, when), "the token is not valid")
        holder = self.tokens[token]["holder"]
        self.may(holder, "approve", when)
        need(by == (None if change.get("channel") is not None else holder), "the link is made by somebody else")

    def on_secret_set(self, change, when, by, **_):
        self.may(by, "manage_identity", when)

    on_secret_rotated = on_secret_deleted = on_secret_set
    on_connection_made = on_connection_logged_in = on_connection_removed = on_secret_set

    def on_master_key_replaced(self, change, when, by, **_):
        # Without a server, on its data folder, nobody is known to the log.
        if by is not None:
            self.may(by, "manage_identity", when)

    def new_token(self, change, holder, since, answers=None):
        need(get(change, "token") not in self.tokens, "a token is made twice")
        expires_at = time(change, "expires_at") if change.get("expires_at") is not None else None
        scopes = change.get("scopes") or []
        made = {"holder": holder, "since": since, "expires_at": expires_at, "scopes": scopes, "answers": answers}
        self.tokens[change["token"]] = made

    def answer(self, body, when):
        """Checks who answers. Returns since which seq they have had both their role and their token."""
        user = self.active(user_of(body.get("by")))
        need(ROLES[user["rank"]] == body.get("role"), "the answer is in a wrong role")
        need(user["rank"] >= LOWEST["approve"], "the answer is in a role that cannot answer")
        return max(user["able"], self.held(body.get("token"), body["by"], when)["since"])

    def rule(self, name, change, seq, when, by):
        """Checks who changes a rule. What comes with an approval is not checked here."""
        if name == "role_changed":
            return self.role_changed(change, seq, when, by)
        if name == "band_limited":
            self.acts(change.get("user"), when)
            has = self.acted_on(change["user"], when)
            need(user_of(by) != change["user"] or ROLES[has] == "owner", "they change their own limit")
            return self.acts_on(by, has, when)
        if by is None and name in ("drifted", "grant_revoked"):
            return None
        if name in ("consent_given", "consent_withdrawn"):
            return need(self.may(by, "read", when) >= 0, "only a person consents")
        if name == "automation_set":
            need(self.may(by, "invoke", when) >= 0, "only a person saves an automation")
            versions = self.automations.setdefault("automation:" + get(change, "automation"), {})
            versions.setdefault(whole(change.get("version"), "`version`"), user_of(by))  # later entries pause it, and save nothing
            return None
        has = self.may(by, "approve" if name.startswith("grant_") or name == "quarantine_settled" else "manage_policy", when)
        is_read = name == "reviewed" and change.get("wording") != "unread"
        need(has >= 0 or not (is_read or name in ("switched_off", "quarantine_settled")), "only a person could do this")
        need(not name.startswith(("org_", "allowed_")) or has == rank("owner"), "only an owner could do this")
        return None

# ---- What the entries must agree on (rules 1, 2, 5 to 8 and 10 to 13)

class Agreement:
    def __init__(self):
        self.people = People()
        self.ids = set()       # (field, id)
        self.intents = {}      # invocation -> the approval of each attempt, as canonical JSON
        self.receipts = {}     # invocation -> its last receipt_id
        self.quorums = {}      # space -> {tier: number}
        self.refusing = {}     # space -> whether it refuses self-approval
        self.members = {}      # space -> its members as principals, of those that have members
        self.observing = {}    # space -> whether it only observes
        self.prices = {}       # version -> the action, and what one call of it costs; null where it is charged by units
        self.approved = {}     # (invocation, binding, user) -> whether it counts for a quorum above one
        self.denied = set()    # invocations
        self.always = set()    # (invocation, binding, user) of those who allowed the action from then on
        self.allowed = (-9, set())    # the seq of the last intent with an approval, and who allowed its action
        self.approvers = (None, [])   # the invocation of that intent, and its approvers
        self.grants = {}       # id -> (expires_at, givers), only those that are not revoked
        self.events = {}       # receipt_id -> (line of the receipt, name and invocation of the event it needs, when)
        self.retention = {}    # what the org has said of how long it keeps things
        self.events_days = EVENT_DAYS  # for how many days the org keeps its events
        self.kept_from = ""    # events of receipts from before this time may be gone
        self.definitions = {}  # digest -> line of an entry that needs it
        self.count = 0         # receipts

    def entry(self, line, seq, when, kind, body):
        if kind == "identity":
            self.people.identity(seq, when, body)
        elif kind in ("mode", "space", "rule"):
            self.rule(kind, seq, when, body)
        elif kind in ("answer", "intent"):
            getattr(self, kind)(body, seq, when)
        elif kind == "receipt":
            self.receipt(body)
        if kind in ("receipt", "batch"):
            self.expect_event(line, kind, body, when)
        if kind in ("receipt", "intent"):
            digests = re.findall('"([0-9a-f]{64})"', canonical(body.get("definition")))
            self.definitions.update(dict.fromkeys(digests, line))

    def passed(self, newest):
        """Events are counted back from the newest entry, by the retention in force."""
        self.kept_from = max(self.kept_from, days_before(newest, self.events_days))

    def new_id(self, body, field):
        need((field, get(body, field)) not in self.ids, f"two entries have the same {field}")
        self.ids.add((field, body[field]))

    def rule(self, kind, seq, when, body):
        by, change = maker(body), get(body, "change", dict) if kind == "rule" else {}
        name = get(change, "rule") if kind == "rule" else kind
        is_allowed = name in ("mode", "reviewed") and seq - self.allowed[0] <= 2 and by in self.allowed[1]
        came_with = change.get("invocation_id") if name == "grant_given" else None
        is_repeated = name == "retention_set" and by is None and change.get("retention") == self.retention
        if came_with is None and not is_allowed and not is_repeated:
            self.people.rule(name, change, seq, when, by)
        if kind == "space":
            self.quorums[get(body, "space")] = get(body, "quorum", dict) if body.get("quorum") is not None else {}
            need(get(body, "self_approval") in ("allowed", "refused"), "`self_approval` is neither allowed nor refused")
            self.refusing[body["space"]] = body["self_approval"] == "refused"
            self.members.pop(body["space"], None)
            if body.get("members") is not None:
                self.members[body["space"]] = {f"user:{user}" for user in get(body, "members", list)}
            self.observing[body["space"]] = body.get("observes") is True
        elif name == "grant_given":
            need(came_with in (None, self.approvers[0]), "the grant came with an approval that is not there")
            said_yes = [by] if came_with is None else self.approvers[1]
            givers = [f"user:{user}" for user in change.get("givers", [])]
            need({by, *givers} <= set(said_yes), "the grant names somebody who did not give it")
            self.new_id(change, "grant")
            self.grants[change["grant"]] = (time(change, "expires_at"), givers or [by])
        elif name == "price_set":
            price = get(change, "price", dict)
            each = get(price, "usd") if price.get("unit") is None else None
            self.prices[whole(body.get("version"), "`version`")] = (get(change, "action"), each)
        elif name == "retention_set":
            self.retention = get(change, "retention", dict)
            days = self.retention.get("events_days")
            need(days is None or type(days) is int and days >= 0, "`events_days` is not a number")
            self.events_days = EVENT_DAYS if days is None else days
        elif name == "grant_revoked":
            self.grants.pop(get(change, "grant"), None)

    def answer(self, body, seq, when):
        since, pending = self.people.answer(body, when), whole(get(body, "pending_from_seq"), "`pending_from_seq`")
        need(pending <= seq, "the call was not pending yet")
        need(body.get("answer") in ("approve", "deny"), "the answer is neither approve nor deny")
        if body["answer"] == "deny":
            self.denied.add(get(body, "invocation_id"))
            return
        key = (get(body, "invocation_id"), canonical(body.get("binding")), body["by"])
        self.approved[key] = since < pending or self.approved.get(key, False)
        if body.get("beyond") == "always" and ROLES.index(body["role"]) >= LOWEST["manage_policy"]:
            self.always.add(key)

    def intent(self, body, seq, when):
        self.new_id(body, "intent_id")
        invocation = get(body, "invocation_id")
        attempts = self.intents.setdefault(invocation, [])
        need(invocation not in self.receipts, "an attempt is announced after the receipt")
        need(whole(body.get("attempt"), "`attempt`") == len(attempts) + 1, "an attempt is out of order")
        attempts.append(canonical(body.get("approval")))
        need(attempts[0] == attempts[-1], "two attempts name different approvals")
        owner = self.people.owner_of(body)
        if len(attempts) == 1:
            self.begin(body, owner, seq, when)

    def begin(self, body, owner, seq, when):
        """Checks the grant and the approval. Further attempts have the same, whatever the space has come to ask for."""
        invocation, own = get(body, "invocation_id"), (owner, body.get("asked_by"))
        barred = {f"user:{user}" for user in own if user} if self.refusing.get(get(body, "space")) else set()
        members = self.members.get(get(body, "space"))
        is_owed = body.get("purpose") == "rollback" or (body.get("batch") is not None and body.get("reverses") is not None)
        need(members is None or is_owed or f"user:{owner}" in members, "the person whose call it is was no member of the space")
        if body.get("grant") is not None:
            need(get(body, "grant") in self.grants, "the grant was not given, or is revoked")
            expires_at, givers = self.grants[body["grant"]]
            need(when < expires_at, "the grant has expired")
            need(not barred & set(givers), "the owner, or who asked for the run, gave the grant, and the space refuses self-approval")
            need(members is None or set(givers) <= members, "somebody gave the grant who was no member of the space")
        if body.get("observed") is not None:
            need(self.observing.get(get(body, "space")) and body.get("tier") != "R4", "the space does not let it run unasked")
        if body.get("approval") is not None:
            quorum = whole(self.quorums.get(get(body, "space"), {}).get(get(body, "tier"), 1), "the quorum")
            keys = self.check_approvers(invocation, get(body, "approval", dict), quorum)
            approvers = set(body["approval"]["approvers"])
            need(not barred & approvers, "the owner, or who asked for the run, approved it, and the space refuses self-approval")
            need(members is None or approvers <= members, "somebody approved it who was no member of the space")
            self.allowed = (seq, {key[2] for key in keys & self.always})
            self.approvers = (invocation, body["approval"]["approvers"])

    def check_approvers(self, invocation, approval, quorum):
        binding, names = canonical(approval.get("binding")), get(approval, "approvers", list)
        need(all(isinstance(name, str) for name in names), "an approver is not named by text")
        keys = {(invocation, binding, name) for name in names}
        need(all(key in self.approved for key in keys), "an approver has not approved this")
        counted = [key for key in keys if quorum <= 1 or self.approved[key]]
        need(len(counted) >= max(quorum, 1), "there are fewer approvers than are needed")
        return keys

    def receipt(self, body):
        self.count += 1
        invocation, attempts = get(body, "invocation_id"), whole(body.get("attempts"), "`attempts`")
        intents, approval = self.intents.get(invocation, []), canonical(body.get("approval"))
        before, supersedes = self.receipts.get(invocation), body.get("supersedes")
        is_release = before is None and ("receipt_id", supersedes) in self.ids
        need(supersedes == before or is_release, "`supersedes` is not the receipt before it")
        self.receipts[invocation] = get(body, "receipt_id")
        if attempts > 0 and body.get("tier") in ("R2", "R3", "R4"):
            need(len(intents) == attempts, "the receipt has another number of attempts than were announced")
        need(all(one == approval for one in intents), "intent and receipt name different approvals")
        cost = get(body, "cost", dict)
        if "price" in cost or "usd" in cost:
            action, each = self.prices.get(whole(cost.get("price"), "`price`"), (None, None))
            need(action == get(body, "action"), "the action had no such price")
            need(get(cost, "usd") in ("0", each or cost["usd"]), "the call did cost something else than its price")
        need(body.get("denied_by") != "person" or invocation in self.denied, "nobody has given the answer deny")
        if before is None and body.get("tier") == "R4" and body.get("edit") is not None and body.get("approval") is not None:
            self.check_approvers(invocation, get(body, "approval", dict), 2)

    def expect_event(self, line, kind, body, when):
        self.new_id(body, "receipt_id")
        prefix, invocation = ("batch.", None) if kind == "batch" else ("invocation.", body["invocation_id"])
        self.events[body["receipt_id"]] = (line, prefix + get(body, "status"), invocation, when)

# ---- The bundle: its lines, the chain of entries and the keys

PAYLOAD_TYPE = "application/vnd.countersign.receipt.v1+json"
EVENT_DAYS = 7  # an org keeps its events for so long, unless its log says otherwise
KINDS = "key mode space rule identity answer intent receipt batch".split()
FIELDS = {"entry": "line seq envelope", "definition": "line digest body", "checkpoint": "line note",
          "event": "line event_id name receipt_id invocation_id", "end": "line entries sha256"}

class Bundle:
    def __init__(self, pinned):
        self.line, self.log, self.ended, self.hash = 0, None, False, hashlib.sha256()
        self.key, self.revoked, self.prev, self.at = pinned, set(), "0" * 64, ""
        self.leaves, self.checkpoint_keys = [], []  # checkpoint_keys: (seq of the entry, key)
        self.notes, self.events, self.definitions = [], {}, set()
        self.agreement = Agreement()

    def read(self, raw):
        self.line += 1
        need(not self.ended, "something follows the last line")
        need(raw.endswith(b"\n"), "the line is cut off")
        value = parse(raw[:-1])
        if self.line == 1:
            self.first(value)
        else:
            kind = get(value, "line")
            need(kind in FIELDS, "unknown kind of line")
            only_fields(value, FIELDS[kind], "the line")
            getattr(self, "on_" + kind)(value)
        self.hash.update(raw)

    def first(self, value):
        only_fields(value, "countersign_bundle log", "the first line")
        need(get(value, "countersign_bundle", int) == 1 and value["countersign_bundle"] is not True, "unknown version")
        need(re.fullmatch("log_[0-9A-Za-z_-]+", get(value, "log")), "`log` is not the name of a log")
        self.log = value["log"]

    def on_definition(self, value):
        need(sha256(get(value, "body").encode()) == value["digest"], "the definition does not have its digest")
        self.definitions.add(value["digest"])

    def on_event(self, value):
        need(get(value, "receipt_id") not in self.events, "two events are of the same receipt")
        get(value, "event_id")  # must be text, and is used for nothing
        self.events[value["receipt_id"]] = (self.line, get(value, "name"), value["invocation_id"])

    def on_checkpoint(self, value):
        self.notes.append((self.line, *parse_note(get(value, "note"), self.log)))

    def on_end(self, value):
        need(value["entries"] == str(len(self.leaves)), "`entries` is not the number of entries")
        need(value["sha256"] == self.hash.hexdigest(), "`sha256` does not fit the bytes before")
        self.ended = True

    def on_entry(self, value):
        seq, payload = len(self.leaves), self.open_envelope(value["envelope"])
        signed = parse(payload)
        need(canonical(signed).encode() == payload, "the payload is not canonical JSON")
        only_fields(signed, "body entry", "the payload")
        entry, body = get(signed, "entry", dict), get(signed, "body", dict)
        only_fields(entry, "at kind log prev seq" + " clock" * ("clock" in entry), "`entry`")
        need(entry["log"] == self.log, "the entry is of another log")
        need(value["seq"] == entry["seq"] == str(seq), "`seq` is not the next number")
        need(entry["prev"] == self.prev, "`prev` is not the digest of the payload before")
        need(time(entry, "at") >= self.at, "`at` is before the entry before")
        need("clock" not in entry or time(entry, "clock") < entry["at"], "`clock` is not before `at`")
        need(entry["kind"] in KINDS, "unknown kind of entry")
        need(seq > 0 or entry["kind"] == "key", "the first entry does not announce the keys")
        if entry["kind"] == "key":
            self.announce(seq, body)
        self.agreement.entry(self.line, seq, entry.get("clock", entry["at"]), entry["kind"], body)
        self.agreement.passed(entry["at"])
        self.prev, self.at = sha256(payload), entry["at"]
        self.leaves.append(hashlib.sha256(b"\x00" + payload).digest())

    def open_envelope(self, envelope):
        only_fields(envelope, "payload payloadType signatures", "the envelope")
        need(envelope["payloadType"] == PAYLOAD_TYPE, "unknown payloadType")
        need(len(get(envelope, "signatures", list)) == 1, "there is not exactly one signature")
        signature = envelope["signatures"][0]
        only_fields(signature, "keyid sig", "the signature")
        need(signature["keyid"] == key_id(self.key), "the entry is not signed by the key in force")
        payload = unbase64(get(envelope, "payload"), "the payload")
        message = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
        fits = signature_fits(self.key, message, unbase64(get(signature, "sig"), "the signature", 64))
        need(fits, "the signature does not fit")
        return payload

    def announce(self, seq, body):
        only_fields(body, "receipt_key checkpoint_key replaces starts_at_seq revoked", "the body")
        keys = [unbase64(get(body, field), f"`{field}`", 32) for field in ("receipt_key", "checkpoint_key")]
        need(keys[0] != keys[1], "the two keys are the same")
        need(seq > 0 or keys[0] == self.key, "the first receipt key is not the pinned key")
        need(body["replaces"] == (key_id(self.key) if seq else None), "`replaces` is not the key in force")
        need(body["starts_at_seq"] == str(seq + 1 if seq else 0), "`starts_at_seq` is not the next number")
        for one in get(body, "revoked", list):
            need(isinstance(one, str) and re.fullmatch("[0-9a-f]{16}", one), "`revoked` holds more than key ids")
            self.revoked.add(one)
        for key in keys:  # a revoked key cannot sign either, as only announced keys do
            need(key_id(key) not in self.revoked, "a revoked key is announced")
            negated_key(key)  # refuses what is no proper key
        self.key = keys[0]
        self.checkpoint_keys.append((seq, keys[1]))

    def finish(self, kept):
        need(self.ended, "the bundle is cut off: the last line is not `end`")
        need(self.leaves, "there is no entry")
        need(any(note[1] == len(self.leaves) for note in self.notes), "no checkpoint covers every entry")
        self.check_events_and_definitions()
        if kept is not None:
            self.line = 0
            self.notes.append((0, *parse_note(kept, self.log)))
        self.check_notes()

    def check_events_and_definitions(self):
        """At the end, as these lines may stand before or after the entries that they belong to."""
        wanted = self.agreement.events
        for receipt, (self.line, *says) in self.events.items():
            need(receipt in wanted, "the event is of no receipt")
            self.line = wanted[receipt][0]
            need(says == list(wanted[receipt][1:3]), "the event says something else than its receipt")
        may_miss = True
        for receipt, (self.line, *_, when) in wanted.items():
            # Events go from the oldest on.
            may_miss = may_miss and receipt not in self.events and when < self.agreement.kept_from
            need(may_miss or receipt in self.events, "the receipt has no event")
        for digest, self.line in self.agreement.definitions.items():
            need(digest in self.definitions, "a definition is not in the bundle")

    def check_notes(self):
        """In order of size, so that one tree grows once past all of them."""
        roots, grown = [], 0
        for self.line, size, root, message, signatures in sorted(self.notes, key=lambda note: note[1]):
            need(0 < size <= len(self.leaves), "the checkpoint is not of a size of this log")
            while grown < size:
                grow(roots, grown, self.leaves[grown])
                grown += 1
            need(root_of(roots) == root, "the checkpoint's root is not the root of the entries")
            key = [key for seq, key in self.checkpoint_keys if seq < size][-1]
            check_note_signed("countersign/" + self.log, key, message, signatures)

def read_key(path):
    with open(path, encoding="ascii") as file:
        pem = re.fullmatch("-----BEGIN PUBLIC KEY-----\n(.*)\n-----END PUBLIC KEY-----\\s*", file.read(), re.DOTALL)
    der = unbase64("".join(pem[1].split()), "the key") if pem else b""
    need(len(der) == 44 and der[:12].hex() == "302a300506032b6570032100", f"{path} is not an Ed25519 public key in PEM")
    negated_key(der[12:])
    return der[12:]

def main():
    options = argparse.ArgumentParser(description="Verifies an audit-log export.")
    options.add_argument("bundle")
    options.add_argument("--key", required=True, help="the pinned receipt key, PEM")
    options.add_argument("--checkpoint", help="a checkpoint kept from earlier")
    args = options.parse_args()
    try:
        bundle, file = Bundle(read_key(args.key)), open(args.bundle, "rb")
        kept = open(args.checkpoint, encoding="utf-8", newline="").read() if args.checkpoint else None
    except (OSError, ValueError, Refused) as why:
        options.error(str(why))  # exits with 2
    try:
        with file:
            for raw in file:
                bundle.read(raw)
        bundle.finish(kept)
    except (Refused, RecursionError) as why:
        print(f"not verified: line {bundle.line or int(not bundle.ended)}: {why}", file=sys.stderr)
        return 1
    print(f"verified: {len(bundle.leaves)} entries, {bundle.agreement.count} receipts")
    return 0

if __name__ == "__main__":
    sys.exit(main())
