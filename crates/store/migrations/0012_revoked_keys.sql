-- A key that may be in other hands is not only retired: nothing it signs counts from then on.
ALTER TABLE keys ADD COLUMN revoked_at BIGINT;
