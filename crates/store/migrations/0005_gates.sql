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

-- Texts that were laid out to be stolen. Whatever carries one is caught on its way out.
CREATE TABLE canaries (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  id TEXT NOT NULL,
  text TEXT NOT NULL,
  added_by TEXT NOT NULL,
  added_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, id)
);

-- What a session has come to hold: private data, untrusted content.
CREATE TABLE session_labels (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  session_id TEXT NOT NULL,
  label TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (org_id, session_id, label)
);

-- What must not reach a source from a space, as JSON.
ALTER TABLE spaces ADD COLUMN redaction TEXT NOT NULL DEFAULT '{}';
-- The most dangerous band a person, and whoever acts for them, may act in.
ALTER TABLE users ADD COLUMN max_band TEXT NOT NULL DEFAULT 'black';
