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
