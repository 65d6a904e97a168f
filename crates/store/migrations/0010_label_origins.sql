-- The call that brought it in. Of a label that is older than this column it is not known.
ALTER TABLE session_labels ADD COLUMN invocation_id TEXT;
