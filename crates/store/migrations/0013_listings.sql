-- What each remote source listed last, as canonical JSON: used while the source cannot be asked.
CREATE TABLE listings (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  source TEXT NOT NULL,
  actions TEXT NOT NULL,
  listed_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, source)
);
