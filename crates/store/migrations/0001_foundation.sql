-- Written once for both engines: `migrate.rs` swaps the type words that differ.
-- Times are microseconds, JSON is text, and every table begins with the org it belongs to.

CREATE TABLE orgs (
  org_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  modes_version BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL
);

CREATE TABLE spaces (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  band TEXT NOT NULL,
  self_approval TEXT NOT NULL,
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
  created_at BIGINT NOT NULL,
  disabled_at BIGINT,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, name)
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
  hash BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  PRIMARY KEY (org_id, id),
  UNIQUE (hash)
);

CREATE TABLE modes (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  scope TEXT NOT NULL,
  action TEXT NOT NULL,
  mode TEXT NOT NULL,
  version BIGINT NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, action, scope)
);

CREATE TABLE invocations (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  action TEXT NOT NULL,
  status TEXT NOT NULL,
  expires_at BIGINT,
  sealed_params BYTEA,
  body TEXT NOT NULL,
  PRIMARY KEY (org_id, id)
);
CREATE INDEX invocations_by_session ON invocations (org_id, session_id, id);
CREATE INDEX invocations_by_action ON invocations (org_id, action, id);
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

CREATE TABLE logs (
  org_id TEXT PRIMARY KEY REFERENCES orgs (org_id),
  log_id TEXT NOT NULL,
  size BIGINT NOT NULL,
  prev TEXT NOT NULL,
  frontier BYTEA NOT NULL,
  key_id TEXT NOT NULL,
  checkpoint_key_id TEXT NOT NULL,
  checkpointed BIGINT NOT NULL,
  at BIGINT NOT NULL
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
CREATE INDEX entries_receipts ON entries (org_id, seq) WHERE kind = 'receipt';

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
  seq IDENTITY_KEY,
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  receipt_id TEXT,
  body TEXT NOT NULL,
  at BIGINT NOT NULL,
  UNIQUE (org_id, id)
);
CREATE INDEX events_by_org ON events (org_id, seq);

CREATE TABLE notifications (
  org_id TEXT NOT NULL,
  id TEXT NOT NULL,
  space_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL,
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, invocation_id)
);
