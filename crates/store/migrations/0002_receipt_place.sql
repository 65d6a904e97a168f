-- An ended invocation's receipt and its position: known last, so they are not part of the text that is made before the write.
ALTER TABLE invocations ADD COLUMN receipt_id TEXT;
ALTER TABLE invocations ADD COLUMN receipt_seq BIGINT;
