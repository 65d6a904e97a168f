-- What a call of an action costs, in millionths of a dollar: each call, or each unit that a field of its result counts. Then `at_most` units, in
-- millionths, are reserved before the call.
CREATE TABLE prices (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  action TEXT NOT NULL,
  usd BIGINT NOT NULL,
  field TEXT,
  at_most BIGINT,
  version BIGINT NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, action)
);
