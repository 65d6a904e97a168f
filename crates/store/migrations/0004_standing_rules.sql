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
  structural TEXT,
  textual TEXT,
  state TEXT NOT NULL,
  requested_by TEXT,
  reason TEXT,
  lifetime_seconds BIGINT NOT NULL,
  given_by TEXT,
  given_at BIGINT,
  invocation_id TEXT,
  ended_by TEXT,
  ended_at BIGINT,
  expires_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
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
-- What a pending invocation had left when a switch stopped its clock. Its `expires_at` is null meanwhile.
ALTER TABLE invocations ADD COLUMN time_left BIGINT;

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

-- How many people must say yes, by tier, as JSON.
ALTER TABLE spaces ADD COLUMN quorum TEXT NOT NULL DEFAULT '{}';
