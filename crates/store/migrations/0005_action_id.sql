-- The caller's own name for a call, such as `action_id` of an action request.
ALTER TABLE invocations ADD COLUMN action_id TEXT;
CREATE INDEX invocations_by_action_id ON invocations (org_id, action_id, receipt_seq) WHERE action_id IS NOT NULL;

-- Calls that were there before are found by it too.
/* sqlite */ UPDATE invocations SET action_id = json_extract(body, '$.call.claimed.action_id') WHERE body LIKE '%"action_id":"%';
/* postgres */ UPDATE invocations SET action_id = body::json -> 'call' -> 'claimed' ->> 'action_id' WHERE body LIKE '%"action_id":"%';
