-- Servers at work on this database: each says every few seconds that it lives. One that has not for too long counts as gone.
CREATE TABLE servers (
  id TEXT NOT NULL PRIMARY KEY,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL
);
-- Which server is busy with it now. Nobody is with what waits or has ended, and nobody knows of what began before this column.
ALTER TABLE invocations ADD COLUMN run_by TEXT;
ALTER TABLE batches ADD COLUMN run_by TEXT;
