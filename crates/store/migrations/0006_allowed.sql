-- What an operator allows the sources of every org beside what the file of settings fixes: hosts, networks and commands. The rows are those of the
-- first org. Of a command, `entry` names its words, and `terms` is the canonical JSON of all that is allowed of it.
CREATE TABLE allowed (
  org_id TEXT NOT NULL REFERENCES orgs (org_id),
  list TEXT NOT NULL,
  entry TEXT NOT NULL,
  terms TEXT,
  version BIGINT NOT NULL,
  set_by TEXT NOT NULL,
  set_at BIGINT NOT NULL,
  PRIMARY KEY (org_id, list, entry)
);
