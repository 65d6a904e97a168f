-- Receipts are listed with those of batches, by their place in the log: the primary key leads there, and every few entries are one.
DROP INDEX entries_receipts;
