-- What the trigger of a run was given, sealed under the key of the space.
CREATE TABLE trigger_payloads (
  org_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  trigger_id TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  kept_until BIGINT NOT NULL,
  PRIMARY KEY (org_id, run_id)
);
CREATE INDEX trigger_payloads_by_expiry ON trigger_payloads (org_id, kept_until);
