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
  PRIMARY KEY (org_id, id),
  UNIQUE (org_id, session_id, key)
);
CREATE INDEX batches_by_status ON batches (org_id, status, id);
