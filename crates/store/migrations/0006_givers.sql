-- Everybody a grant was given by, as JSON. Of one that is older than this column only `given_by` is known, and it counts alone.
ALTER TABLE grants ADD COLUMN givers TEXT;
-- HMAC of what a quarantine holds, so that a release can name what was looked at.
ALTER TABLE quarantines ADD COLUMN digest TEXT;
