-- Written once for both engines: `migrate.rs` swaps the type words that differ.
-- Times are microseconds, JSON is text, and every table begins with the org it belongs to.

CREATE TABLE orgs (
  org_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  -- Grows with every change of a rule: modes, spaces, and what else decides.
  rules_version BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  -- 1 for the org of the first start, whose owners are the operators. 0 for every other.
  is_first BIGINT NOT NULL,
  -- From then on none of its tokens works.
  disabled_at BIGINT,
  -- How long what the org has is kept, as JSON.
  retention TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE spaces (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  band TEXT NOT NULL,
  self_approval TEXT NOT NULL,
  -- How many people must approve, by tier, as JSON.
  quorum TEXT NOT NULL DEFAULT '{}',
  -- What must not reach a source from the space, as JSON.
  redaction TEXT NOT NULL DEFAULT '{}',
  -- Whether it keeps the texts of calls that have ended, or their digests only.
  keeps TEXT NOT NULL DEFAULT 'texts',
  -- 1 if it only observes: calls that need approval run, and are noted, but those of R4.
  observes BIGINT NOT NULL DEFAULT 0,
  -- What its automations are given for inputs whose default is `$space_default`, as canonical JSON.
  defaults TEXT NOT NULL DEFAULT '{}',
  -- The receipt up to which the texts of its calls were replaced by digests.
  digested_seq BIGINT NOT NULL DEFAULT 0,
  -- JSON list of the people who may act in it; null: everybody in the org
  members TEXT,
  sealed_key BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, name)
);

CREATE TABLE users (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  -- The most dangerous band this person, and whoever acts for them, may act in.
  max_band TEXT NOT NULL DEFAULT 'black',
  created_at BIGINT NOT NULL,
  disabled_at BIGINT,
  -- The position in the audit log from which the role permits to approve.
  approves_from BIGINT NOT NULL,
  -- The role that somebody here gave them last; `member` for whom a sign-in made. The groups of an issuer give none above it.
  given_role TEXT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, name)
);

-- Whom an OpenID Connect issuer knows by a subject. The subject is kept as a keyed digest.
CREATE TABLE identities (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_id TEXT NOT NULL,
  -- The position in the audit log of their first sign-in.
  from_seq BIGINT NOT NULL,
  -- Under the master key, over the whole row: nobody gives the subject another person in the database.
  mac BYTEA NOT NULL,
  PRIMARY KEY (org_id, issuer, subject),
  UNIQUE (org_id, user_id)
);

-- Sign-ins that were begun: a person is sent to the issuer and comes back once, in the same browser. State and browser are keyed hashes: whoever
-- has only the database cannot make them.
CREATE TABLE open_sign_ins (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  state BYTEA NOT NULL,
  browser BYTEA NOT NULL,
  redirect_uri TEXT NOT NULL,
  -- The page to go on with.
  next_place TEXT,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, state)
);

CREATE TABLE sessions (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  created_by TEXT NOT NULL,
  owner_id TEXT,
  title TEXT NOT NULL,
  attendance TEXT NOT NULL,
  automation_id TEXT,
  -- The person behind whoever asked for its run by name.
  asked_by TEXT,
  -- JSON list of the names of the sources it is connected to; null: all
  sources TEXT,
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, space_id) REFERENCES spaces (org_id, id)
);

CREATE TABLE tokens (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  user_id TEXT,
  session_id TEXT,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  made_by TEXT,
  -- The device it is bound to and its class, as JSON.
  device TEXT,
  hash BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  -- The position in the audit log from which its bearer is known to be this person.
  from_seq BIGINT NOT NULL,
  -- Under the master key, over what the token may do and its hash: nobody gives it another bearer in the database.
  mac BYTEA NOT NULL,
  -- What its clients get at the MCP door where the URL says nothing.
  mcp_tools TEXT,
  hold_seconds BIGINT,
  PRIMARY KEY (org_id, id),
  UNIQUE (hash)
);

-- Browsers in which a person has logged in. Each shows a text of its own, kept as a hash, and acts as the bearer of this token.
CREATE TABLE logins (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  hash BYTEA NOT NULL,
  token_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- Under the master key: nobody gives the browser another bearer in the database, or more time.
  mac BYTEA NOT NULL,
  PRIMARY KEY (org_id, hash),
  UNIQUE (hash)
);
CREATE INDEX logins_by_token ON logins (org_id, token_id);

-- Links that were opened, each with the browser that did so first, both as hashes. In another browser the link asks for a login.
CREATE TABLE opened_links (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  link BYTEA NOT NULL,
  browser BYTEA NOT NULL,
  opened_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, link)
);

CREATE TABLE modes (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  scope TEXT NOT NULL,
  action TEXT NOT NULL,
  mode TEXT NOT NULL,
  -- Whether automations may loosen the org's row.
  lock TEXT NOT NULL,
  version BIGINT NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  -- The invocation whose approval set the row.
  invocation_id TEXT,
  PRIMARY KEY (org_id, action, scope)
);

CREATE TABLE invocations (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  action TEXT NOT NULL,
  tier TEXT NOT NULL,
  status TEXT NOT NULL,
  expires_at BIGINT,
  -- What a pending invocation had left when a kill switch stopped its clock. Its `expires_at` is null meanwhile.
  time_left BIGINT,
  sealed_params BYTEA,
  body TEXT NOT NULL,
  -- The receipt of an ended invocation and its position: known last, so they are not part of `body`, which is made before the write.
  receipt_id TEXT,
  receipt_seq BIGINT,
  -- Which server works on it now.
  run_by TEXT,
  trace_id TEXT NOT NULL,
  -- Its idempotency key, if its caller gave one.
  key TEXT,
  -- Whom its caller claims to act for.
  subject TEXT,
  -- What could have answered instead of a person, if its space only observes and a person would have been asked.
  observed TEXT,
  -- Known at its end. The reward, in millionths, and the time it ran, in milliseconds, are those of an effect that was tried.
  ended_at BIGINT,
  reward BIGINT,
  exec_ms BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX invocations_by_trace ON invocations (org_id, trace_id);
CREATE INDEX invocations_by_key ON invocations (org_id, key) WHERE key IS NOT NULL;
CREATE INDEX invocations_by_subject ON invocations (org_id, subject, receipt_seq) WHERE subject IS NOT NULL;
-- In the order of the audit log, so that a page of receipts reads a page of rows.
CREATE INDEX invocations_by_space ON invocations (org_id, space_id, receipt_seq) WHERE receipt_seq IS NOT NULL;
CREATE INDEX invocations_by_end ON invocations (org_id, status, receipt_seq) WHERE receipt_seq IS NOT NULL;
CREATE INDEX invocations_by_time ON invocations (org_id, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX invocations_by_session ON invocations (org_id, session_id, id);
CREATE INDEX invocations_by_action ON invocations (org_id, action, id);
CREATE INDEX invocations_observed ON invocations (org_id, space_id, id) WHERE observed IS NOT NULL;
CREATE INDEX invocations_open ON invocations (org_id, status, expires_at, id)
  WHERE status IN ('pending', 'approved', 'running', 'in_doubt');

CREATE TABLE attempts (
  org_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  n BIGINT NOT NULL,
  state TEXT NOT NULL,
  intent_at BIGINT NOT NULL,
  outcome TEXT,
  outcome_at BIGINT,
  PRIMARY KEY (org_id, invocation_id, n)
);

CREATE TABLE approvals (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  approver TEXT NOT NULL,
  approves BIGINT NOT NULL,
  reason TEXT,
  binding TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX approvals_by_invocation ON approvals (org_id, invocation_id);

CREATE TABLE reservations (
  org_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  action TEXT NOT NULL,
  key TEXT NOT NULL,
  raw TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  state TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, space_id, action, key)
);
CREATE INDEX reservations_by_expiry ON reservations (org_id, expires_at);

-- Calls that were held while their callers waited, and calls whose callers have left: the same call, asked for again, joins them. A row
-- is deleted when a result or a reference was delivered.
CREATE TABLE lines (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  invocation_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  -- The digest of what makes two calls the same.
  identity TEXT NOT NULL,
  -- Names the line that the call is on.
  line TEXT NOT NULL,
  -- The server that has the line; absent once the caller has left or has a ticket.
  server_id TEXT,
  -- The digest of the text with which the caller goes on, once.
  ticket TEXT,
  left_at BIGINT,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, invocation_id)
);
CREATE INDEX lines_by_identity ON lines (org_id, session_id, identity);
CREATE INDEX lines_by_ticket ON lines (org_id, ticket) WHERE ticket IS NOT NULL;

CREATE TABLE logs (
  org_id TEXT PRIMARY KEY REFERENCES orgs (org_id),
  log_id TEXT NOT NULL,
  size BIGINT NOT NULL,
  prev TEXT NOT NULL,
  frontier BYTEA NOT NULL,
  key_id TEXT NOT NULL,
  checkpoint_key_id TEXT NOT NULL,
  checkpointed BIGINT NOT NULL,
  at BIGINT NOT NULL,
  -- The position of the org's newest event.
  last_event BIGINT NOT NULL
);

-- Rows of `entries`, `tree_nodes` and `checkpoints` are inserted and never changed or deleted.
CREATE TABLE entries (
  org_id TEXT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  invocation_id TEXT,
  payload TEXT NOT NULL,
  leaf BYTEA NOT NULL,
  key_id TEXT NOT NULL,
  signature BYTEA NOT NULL,
  PRIMARY KEY (org_id, seq),
  UNIQUE (org_id, id)
);
CREATE INDEX entries_by_invocation ON entries (org_id, invocation_id) WHERE invocation_id IS NOT NULL;

CREATE TABLE tree_nodes (
  org_id TEXT NOT NULL,
  level BIGINT NOT NULL,
  position BIGINT NOT NULL,
  hash BYTEA NOT NULL,
  PRIMARY KEY (org_id, level, position)
);

CREATE TABLE checkpoints (
  org_id TEXT NOT NULL,
  size BIGINT NOT NULL,
  note TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (org_id, size)
);

CREATE TABLE keys (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  key_id TEXT NOT NULL,
  purpose TEXT NOT NULL,
  public TEXT NOT NULL,
  sealed_secret BYTEA NOT NULL,
  starts_at_seq BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  retired_at BIGINT,
  -- A key that may be in other hands: nothing it signs counts from then on.
  revoked_at BIGINT,
  PRIMARY KEY (org_id, key_id)
);

CREATE TABLE definitions (
  org_id TEXT NOT NULL,
  digest TEXT NOT NULL,
  body TEXT NOT NULL,
  archived_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, digest)
);

CREATE TABLE events (
  org_id TEXT NOT NULL,
  seq BIGINT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  receipt_id TEXT,
  body TEXT NOT NULL,
  at BIGINT NOT NULL,
  -- The space that whoever published it named.
  space_id TEXT,
  -- Which automations led to it, as JSON; null: none.
  cause TEXT,
  -- What its sender calls it, and what else the sender says of it, as JSON; null for events of ours.
  source TEXT,
  source_id TEXT,
  origin TEXT,
  PRIMARY KEY (org_id, seq),
  UNIQUE (org_id, id)
);
CREATE UNIQUE INDEX events_by_source ON events (org_id, source_id, source) WHERE source_id IS NOT NULL;

-- Who consumes events together, each event by one of them.
CREATE TABLE event_groups (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  name TEXT NOT NULL,
  -- The last event that was claimed for the first time. What of it and before it is not acknowledged is in `event_claims`.
  read_seq BIGINT NOT NULL,
  -- The newest fencing token that was given out.
  token BIGINT NOT NULL,
  deliveries_max BIGINT NOT NULL,
  -- Events that retention dropped before the group had them, and when it did so last.
  lost BIGINT NOT NULL,
  overtaken_at BIGINT,
  created_by TEXT,
  created_at BIGINT NOT NULL,
  -- The server that reads the log for it without claiming, and until when no other does.
  held_by TEXT,
  held_until BIGINT,
  PRIMARY KEY (org_id, name)
);

-- Events that a group has claimed, or given back, and not acknowledged.
CREATE TABLE event_claims (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  group_name TEXT NOT NULL,
  seq BIGINT NOT NULL,
  -- Of the claim that counts; 0 while nobody has claimed it.
  token BIGINT NOT NULL,
  deliveries BIGINT NOT NULL,
  -- Until then nobody claims it: the end of the lease, or of the delay with which it was given back.
  due_at BIGINT NOT NULL,
  problem TEXT,
  -- The event itself, as JSON, if it was a dead letter: the log may keep it no longer.
  event TEXT,
  PRIMARY KEY (org_id, group_name, seq)
);
CREATE INDEX event_claims_due ON event_claims (org_id, group_name, due_at);

-- Events that a group has given up, each with its text: they outlive the log's retention.
CREATE TABLE dead_letters (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  group_name TEXT NOT NULL,
  seq BIGINT NOT NULL,
  name TEXT NOT NULL,
  event TEXT NOT NULL,
  deliveries BIGINT NOT NULL,
  problem TEXT NOT NULL,
  died_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX dead_letters_by_time ON dead_letters (org_id, died_at, id);

-- Failed calls that somebody took out of the dead letters: dropped, or made again as another call.
CREATE TABLE answered_failures (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  invocation_id TEXT NOT NULL,
  answered_by TEXT NOT NULL,
  retried_as TEXT,
  at BIGINT NOT NULL,
  PRIMARY KEY (org_id, invocation_id)
);

CREATE TABLE notifications (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  -- The call that sent it; null if the server says it itself.
  invocation_id TEXT,
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, invocation_id)
);

-- Standing permissions, and the requests for them.
CREATE TABLE grants (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  scope TEXT NOT NULL,
  space_id TEXT,
  source TEXT NOT NULL,
  name TEXT NOT NULL,
  condition TEXT,
  calls_max BIGINT,
  used BIGINT NOT NULL DEFAULT 0,
  -- How much of a param, in millionths, its calls may add up to in any window of so many seconds.
  sum_of TEXT,
  sum_max BIGINT,
  sum_seconds BIGINT,
  structural TEXT,
  textual TEXT,
  state TEXT NOT NULL,
  requested_by TEXT,
  reason TEXT,
  lifetime_seconds BIGINT NOT NULL,
  given_by TEXT,
  given_at BIGINT,
  -- Everyone it was given by, as JSON. Null while it is requested.
  givers TEXT,
  invocation_id TEXT,
  ended_by TEXT,
  ended_at BIGINT,
  expires_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);
-- What calls have taken of the sum of a grant, in millionths. Written with the intent, so what is in doubt counts.
CREATE TABLE grant_spends (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  grant_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  amount BIGINT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (org_id, grant_id, invocation_id)
);
CREATE INDEX grants_open ON grants (org_id, state, expires_at) WHERE state IN ('requested', 'active');

-- Kill switches that are on.
CREATE TABLE switches (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  scope TEXT NOT NULL,
  stop TEXT NOT NULL,
  reason TEXT NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, scope)
);

-- The definitions people reviewed, and the other one that was seen since.
CREATE TABLE pins (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  action TEXT NOT NULL,
  structural TEXT NOT NULL,
  textual TEXT NOT NULL,
  wording TEXT NOT NULL,
  reviewed_by TEXT NOT NULL,
  reviewed_at BIGINT NOT NULL,
  seen_structural TEXT,
  seen_textual TEXT,
  seen_at BIGINT,
  PRIMARY KEY (org_id, action)
);

-- Pending invocations somebody does not want to see for a while. Nothing is decided by it.
CREATE TABLE snoozes (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  invocation_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (org_id, invocation_id, user_id)
);

-- Every version of the org's policies that was ever in force, by the number of the change that set it.
CREATE TABLE policies (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  version BIGINT NOT NULL,
  rbac TEXT NOT NULL,
  abac TEXT NOT NULL,
  consent TEXT NOT NULL,
  space TEXT NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, version)
);

-- What people gave leave for.
CREATE TABLE consents (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  space_id TEXT,
  purpose TEXT NOT NULL,
  evidence TEXT,
  given_at BIGINT NOT NULL,
  expires_at BIGINT,
  withdrawn_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX consents_live ON consents (org_id, user_id) WHERE withdrawn_at IS NULL;

-- Actions that may reach from one space into another.
CREATE TABLE crossings (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  from_space TEXT NOT NULL,
  to_space TEXT NOT NULL,
  action TEXT NOT NULL,
  listed_by TEXT NOT NULL,
  listed_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, from_space, to_space, action)
);

-- What was too dangerous to run, sealed until an admin looks at it.
CREATE TABLE quarantines (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  invocation_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  action TEXT NOT NULL,
  principal TEXT NOT NULL,
  owner_id TEXT,
  holds TEXT NOT NULL,
  sealed BYTEA,
  -- HMAC of what it holds, so that a release can name what was looked at.
  digest TEXT NOT NULL,
  caught TEXT NOT NULL,
  state TEXT NOT NULL,
  settled_by TEXT,
  settled_at BIGINT,
  reason TEXT,
  released_as TEXT,
  expires_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, invocation_id)
);
CREATE INDEX quarantines_kept ON quarantines (org_id, expires_at) WHERE sealed IS NOT NULL;

-- Canary tokens: whatever carries one of these texts is caught on its way out.
CREATE TABLE canaries (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  text TEXT NOT NULL,
  added_by TEXT NOT NULL,
  added_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);

-- Credentials with which calls act elsewhere.
CREATE TABLE secrets (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT,
  -- 1 for the first value, and 1 more for each that replaced it.
  version BIGINT NOT NULL,
  -- The value, sealed under the master key for this org, id and version: it opens in no other row.
  sealed_value BYTEA NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  -- To the minute.
  last_used_at BIGINT,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, name)
);

-- The credentials of sources, each with the place it may be sent to.
CREATE TABLE connections (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  -- The credential goes to the origin of this address, and to no other.
  url TEXT NOT NULL,
  -- The name of the header, or of the user.
  account TEXT,
  -- The address that mail comes from.
  mail_from TEXT,
  -- The name of the secret that has the value, if it is not sealed here.
  secret TEXT,
  -- Who issued the tokens, for OAuth.
  issuer TEXT,
  -- What a login asks for.
  scopes TEXT,
  -- A JSON list of the spaces that may use it; null: all.
  spaces TEXT,
  -- 1 at first, and 1 more for each login.
  version BIGINT NOT NULL,
  state TEXT NOT NULL,
  why TEXT,
  -- Sealed under the master key for this org, id, version, kind, spaces and url: it opens in no other row, and is not sent elsewhere. Where
  -- a secret has the value, its name is sealed here.
  sealed_credential BYTEA,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  login_by TEXT,
  login_at BIGINT,
  -- To the minute.
  last_used_at BIGINT,
  -- Who renews its tokens, alone, and until when.
  renewed_by TEXT,
  renewed_until BIGINT,
  removed_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX connections_by_name ON connections (org_id, name) WHERE removed_at IS NULL;

-- The last login of each connection: a person is sent to an authorization server, and comes back once.
CREATE TABLE connection_logins (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  connection_id TEXT NOT NULL,
  -- A keyed hash of the `state` that comes back: whoever has only the database cannot make one.
  state_hash TEXT NOT NULL,
  -- What is needed to end it, sealed under the master key for this org, connection and state; null once it was used.
  sealed_login BYTEA,
  started_by TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ended_at BIGINT,
  problem TEXT,
  PRIMARY KEY (org_id, connection_id)
);
CREATE UNIQUE INDEX connection_logins_by_state ON connection_logins (state_hash);

-- The sources that admins added: MCP servers. A name keeps its row when its source is removed, so that its version goes on.
CREATE TABLE sources (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  -- 1 at first, and 1 more with every change of the settings.
  version BIGINT NOT NULL,
  -- Everything that is set, as canonical JSON. The audit log has its digest.
  settings TEXT NOT NULL,
  -- What the settings name, to be found without reading them: the connection, and a JSON list of the names of secrets.
  connection_id TEXT,
  secrets TEXT NOT NULL,
  added_by TEXT NOT NULL,
  added_at BIGINT NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at BIGINT NOT NULL,
  removed_at BIGINT,
  PRIMARY KEY (org_id, id)
);

-- Where an org is told of calls that wait for a person. The row of a channel stays when it is removed, for the deliveries that name it.
CREATE TABLE channels (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  -- Everything that is set, as canonical JSON, the name too. The audit log has its digest.
  terms TEXT NOT NULL,
  -- What the terms name, to be found without reading them: a JSON list of the names of secrets.
  secrets TEXT NOT NULL,
  -- It is told of what came after this event.
  since_seq BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  removed_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX channels_by_name ON channels (org_id, name) WHERE removed_at IS NULL;

-- Up to which event the deliveries of an org were made.
CREATE TABLE outboxes (
  org_id TEXT NOT NULL PRIMARY KEY REFERENCES orgs (org_id),
  seq BIGINT NOT NULL
);

-- Notices on their way to the recipients of channels: waiting, sent, skipped, or given up (dead letters).
CREATE TABLE deliveries (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  channel_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  -- One of those whom the channel names; empty: the channel as a whole.
  recipient TEXT NOT NULL,
  moment TEXT NOT NULL,
  -- The event that it tells of. What happened later is told later.
  seq BIGINT NOT NULL,
  state TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  due_at BIGINT NOT NULL,
  tried_at BIGINT,
  problem TEXT,
  -- What the channel wants to know when it tells of the same call again, as JSON.
  remembered TEXT,
  retried_by TEXT,
  dropped_by TEXT,
  -- Which server tries it now, and until when it has it for itself.
  claimed_by TEXT,
  claimed_until BIGINT,
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, channel_id, invocation_id, recipient, moment)
);
CREATE INDEX deliveries_waiting ON deliveries (org_id, channel_id, due_at, id) WHERE state = 'waiting';
CREATE INDEX deliveries_by_call ON deliveries (org_id, invocation_id);
CREATE INDEX deliveries_by_channel ON deliveries (org_id, channel_id, id);

-- What a session has come to hold: private data, untrusted content.
CREATE TABLE session_labels (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  session_id TEXT NOT NULL,
  label TEXT NOT NULL,
  at BIGINT NOT NULL,
  -- The call that brought it in. Null: what started its run did.
  invocation_id TEXT,
  PRIMARY KEY (org_id, session_id, label)
);

-- Targets that fail again and again: how often in a row, and until when nobody is let through.
CREATE TABLE breakers (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  key TEXT NOT NULL,
  state TEXT NOT NULL,
  failures BIGINT NOT NULL,
  opened BIGINT NOT NULL,
  reason TEXT NOT NULL,
  since BIGINT NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (org_id, key)
);

-- Calls that were asked for together: how far they have come, and what the parts still to come ask for.
CREATE TABLE batches (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  status TEXT NOT NULL,
  key TEXT,
  sealed_parts BYTEA,
  body TEXT NOT NULL,
  receipt_id TEXT,
  receipt_seq BIGINT,
  version BIGINT NOT NULL,
  touched_at BIGINT NOT NULL,
  -- Which server works on it now.
  run_by TEXT,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, session_id, key)
);
CREATE INDEX batches_by_status ON batches (org_id, status, id);
CREATE INDEX batches_by_end ON batches (org_id, receipt_seq) WHERE receipt_seq IS NOT NULL;
CREATE INDEX batches_by_time ON batches (org_id, touched_at) WHERE receipt_seq IS NOT NULL;

-- Which master key seals: its id, with which each sealed value begins. One row, from the first value on.
CREATE TABLE master_key (
  id BIGINT NOT NULL PRIMARY KEY,
  key_id BYTEA NOT NULL,
  -- What tokens are hashed with, sealed, from when the master key was first replaced on: the hashes stay, so it does too.
  sealed_pepper BYTEA,
  -- The last replacement. It goes on until `ended_at`: values that begin with another id are sealed anew.
  replaced_by TEXT,
  began_at BIGINT,
  ended_at BIGINT
);

-- Servers at work on this database: each says every few seconds that it lives. One that has not for too long counts as gone.
CREATE TABLE servers (
  id TEXT NOT NULL PRIMARY KEY,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  -- The ids of the master keys it has: one that it has not must seal nothing.
  opens TEXT NOT NULL DEFAULT ''
);
-- What each remote source listed last, as canonical JSON: used while the source cannot be asked.
CREATE TABLE listings (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  source TEXT NOT NULL,
  actions TEXT NOT NULL,
  listed_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, source)
);

-- Requests of Slack that were used, by their signature, for as long as they are young enough to be sent again.
CREATE TABLE slack_requests (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  signature TEXT NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (org_id, signature)
);

-- Saved automations. `definition` is the SHA-256 of the version that fires now; its text is among the definitions.
CREATE TABLE automations (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  version BIGINT NOT NULL,
  definition TEXT NOT NULL,
  creator_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  -- Also changes when one of its triggers does.
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, space_id) REFERENCES spaces (org_id, id)
);
CREATE UNIQUE INDEX automations_by_name ON automations (org_id, space_id, name) WHERE status <> 'archived';
CREATE INDEX automations_by_change ON automations (org_id, changed_at);

CREATE TABLE automation_versions (
  org_id TEXT NOT NULL,
  automation_id TEXT NOT NULL,
  version BIGINT NOT NULL,
  definition TEXT NOT NULL,
  saved_by TEXT NOT NULL,
  saved_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, automation_id, version)
);

-- Definitions that wait for a person to save them.
CREATE TABLE automation_drafts (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  automation_id TEXT,
  -- The definition that the automation had when the draft was made.
  replaces TEXT,
  body TEXT NOT NULL,
  made_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);

-- What lasts of a trigger across versions of its automation, as long as the definition has its id.
CREATE TABLE triggers (
  org_id TEXT NOT NULL,
  automation_id TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  -- 1: it fires.
  enabled BIGINT NOT NULL,
  disabled_why TEXT,
  enabled_at BIGINT NOT NULL,
  next_due_at BIGINT,
  high_water BIGINT,
  last_fired_at BIGINT,
  -- Of a webhook: the keyed digest of its token, and of the one before it for as long as that is still taken.
  token_hash TEXT,
  old_token_hash TEXT,
  old_token_until BIGINT,
  -- Of a webhook that is signed: the name of the secret that signs it.
  signed_by TEXT,
  -- Since when it is at its rate without a pause.
  crowded_since BIGINT,
  PRIMARY KEY (org_id, automation_id, id)
);
CREATE INDEX triggers_due ON triggers (next_due_at) WHERE enabled = 1 AND next_due_at IS NOT NULL;

-- Events that start one run together, once they are due. The row stays when they have: `last_seq` says which events were gathered already.
CREATE TABLE gatherings (
  org_id TEXT NOT NULL,
  automation_id TEXT NOT NULL,
  trigger_id TEXT NOT NULL,
  -- The firing that they will be.
  firing_id TEXT NOT NULL,
  -- The positions of the events in the org's log, as JSON: of all of them, or of the last alone where only that one counts.
  events TEXT NOT NULL,
  -- How many they are, and how many bytes those in the list have as JSON.
  count BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  last_seq BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  -- Null while there are none.
  due_at BIGINT,
  PRIMARY KEY (org_id, automation_id, trigger_id)
);
CREATE INDEX gatherings_due ON gatherings (due_at) WHERE due_at IS NOT NULL;

-- Every occurrence of a trigger, also those that started nothing.
CREATE TABLE firings (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  automation_id TEXT NOT NULL,
  trigger_id TEXT,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT,
  run_id TEXT,
  scheduled_for BIGINT,
  -- The wall time, the zone and the version of the zone data of `scheduled_for`, as JSON.
  tick TEXT,
  event_id TEXT,
  at BIGINT NOT NULL,
  count BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, automation_id, trigger_id, scheduled_for),
  UNIQUE (org_id, automation_id, trigger_id, event_id)
);
CREATE INDEX firings_by_automation ON firings (org_id, automation_id, id);
CREATE INDEX firings_by_trigger ON firings (org_id, automation_id, trigger_id, outcome, at);
CREATE INDEX firings_by_time ON firings (org_id, last_at);

-- Idempotency keys of requests that fired an automation. A key outlives its run.
CREATE TABLE fire_keys (
  org_id TEXT NOT NULL,
  automation_id TEXT NOT NULL,
  -- The trigger, if one was fired, a space, and the key as it was sent.
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  firing_id TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, automation_id, key)
);
CREATE INDEX fire_keys_by_expiry ON fire_keys (org_id, expires_at);

CREATE TABLE runs (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  automation_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  status TEXT NOT NULL,
  -- The call that it waits for.
  invocation_id TEXT,
  -- Where only one run of an automation may go on: 1 for that one, 2 for those that wait behind it. Otherwise 0.
  slot BIGINT NOT NULL,
  -- The order in which runs of one automation go on.
  fire_seq BIGINT NOT NULL,
  cancelled_by TEXT,
  -- It has the inputs redacted.
  body TEXT NOT NULL,
  -- The inputs as they were given, sealed under the key of the space. Null once the space no longer keeps the texts of the run.
  sealed_inputs BYTEA,
  -- Written when a worker first has it: before its first step, so that a step after a crash reads the same time.
  started_at BIGINT,
  ended_at BIGINT,
  PRIMARY KEY (org_id, id),
  CHECK (slot = 0 OR status IN ('pending', 'running', 'waiting'))
);
CREATE UNIQUE INDEX runs_slot ON runs (org_id, automation_id) WHERE slot = 1;
CREATE INDEX runs_by_automation ON runs (org_id, automation_id, id);
CREATE INDEX runs_queued ON runs (org_id, automation_id, fire_seq) WHERE slot = 2;
CREATE INDEX runs_fired ON runs (org_id, automation_id, fire_seq);
CREATE INDEX runs_by_session ON runs (org_id, session_id);
CREATE INDEX runs_by_time ON runs (org_id, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_with_texts ON runs (org_id, space_id, ended_at) WHERE sealed_inputs IS NOT NULL;
CREATE INDEX runs_waiting ON runs (org_id, invocation_id) WHERE invocation_id IS NOT NULL;

-- One row for each run that is not behind another. `due_at` and `lease_until` are null while it waits for something.
CREATE TABLE run_leases (
  run_id TEXT NOT NULL PRIMARY KEY,
  org_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  due_at BIGINT,
  lease_owner TEXT,
  lease_token BIGINT NOT NULL,
  lease_until BIGINT,
  -- 1: somebody asked for its end.
  cancelled BIGINT NOT NULL
);
CREATE INDEX run_leases_ready ON run_leases (queue, due_at, run_id) WHERE lease_until IS NULL AND due_at IS NOT NULL;
CREATE INDEX run_leases_by_space ON run_leases (queue, space_id, due_at, run_id) WHERE lease_until IS NULL AND due_at IS NOT NULL;
CREATE INDEX run_leases_held ON run_leases (lease_until) WHERE lease_until IS NOT NULL;

-- What the paid calls of a run may cost, reserved before the call, and what they did cost, in millionths of a dollar. A reservation that was
-- not settled counts in full: whoever made it may have been killed after the call.
CREATE TABLE budget_entries (
  org_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  -- The key of the call.
  key TEXT NOT NULL,
  action TEXT NOT NULL,
  reserved BIGINT NOT NULL,
  spent BIGINT,
  at BIGINT NOT NULL,
  PRIMARY KEY (org_id, run_id, key)
);
CREATE INDEX budget_entries_by_action ON budget_entries (org_id, action, at) WHERE spent IS NOT NULL;

-- Steps of runs that have ended.
CREATE TABLE run_steps (
  org_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  phase TEXT NOT NULL,
  step BIGINT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (org_id, run_id, phase, step)
);

-- The whole results of calls that runs made, where the invocation keeps only a part, until their run has ended.
CREATE TABLE whole_results (
  org_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  result TEXT NOT NULL,
  PRIMARY KEY (org_id, invocation_id)
);
CREATE INDEX whole_results_by_session ON whole_results (org_id, session_id);

-- Texts that the calls of a space look for. One that was removed stays until no revert can need it.
CREATE TABLE documents (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  -- The file of the workspace that it was imported from.
  path TEXT,
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  -- JSON list of texts, sorted.
  tags TEXT NOT NULL,
  -- Of the body.
  sha256 TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  -- Made from the id: SQLite's index of words knows the document by it.
  word_row BIGINT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL,
  removed_at BIGINT,
  PRIMARY KEY (org_id, id),
  FOREIGN KEY (org_id, space_id) REFERENCES spaces (org_id, id)
);
CREATE UNIQUE INDEX documents_by_path ON documents (org_id, space_id, path) WHERE removed_at IS NULL AND path IS NOT NULL;
CREATE INDEX documents_by_change ON documents (org_id, space_id, changed_at) WHERE removed_at IS NULL;
CREATE INDEX documents_removed ON documents (org_id, removed_at) WHERE removed_at IS NOT NULL;

-- The index of words. On SQLite it is a table that the store writes with each document (`documents/words.rs`). On PostgreSQL it is a column that
-- follows from the others, in which signs divide words as they do on SQLite.
/* sqlite */ CREATE VIRTUAL TABLE document_words USING fts5(space_id, title, body, content='documents', content_rowid='word_row', tokenize='unicode61 remove_diacritics 0');
/* postgres */ ALTER TABLE documents ADD COLUMN words tsvector GENERATED ALWAYS AS (
  setweight(to_tsvector('simple', translate(title, '!"#$%&''()*+,-./:<=>?@[\]^_`{|}~' || chr(59), repeat(' ', 32))), 'A') ||
  setweight(to_tsvector('simple', translate(body, '!"#$%&''()*+,-./:<=>?@[\]^_`{|}~' || chr(59), repeat(' ', 32))), 'B')
) STORED;
/* postgres */ CREATE INDEX documents_by_words ON documents USING gin (words);

-- Texts that a change of a document replaced, until no revert can need them.
CREATE TABLE document_texts (
  org_id TEXT NOT NULL,
  document_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  body TEXT NOT NULL,
  replaced_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, document_id, sha256)
);
CREATE INDEX document_texts_by_time ON document_texts (org_id, replaced_at);
-- What calls and runs made beside their results. The bytes are elsewhere; a row comes before its bytes and goes after them.
CREATE TABLE artifacts (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  owner_id TEXT,
  run_id TEXT,
  invocation_id TEXT,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  retention TEXT NOT NULL,
  visibility TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  quarantined_at BIGINT,
  quarantined_by TEXT,
  -- When the bytes of one in quarantine went. Any other row goes with its bytes.
  removed_at BIGINT,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX artifacts_by_run ON artifacts (org_id, run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX artifacts_by_invocation ON artifacts (org_id, invocation_id, id) WHERE invocation_id IS NOT NULL;
CREATE INDEX artifacts_expiring ON artifacts (org_id, expires_at) WHERE removed_at IS NULL;
