-- Whether the space asks for a consent to calls of class HIGH that do more than read: `asked` or `waived`. Spaces that were there before it could be
-- asked for ask for none (`before`), until an admin says what they do.
ALTER TABLE spaces ADD COLUMN consent TEXT NOT NULL DEFAULT 'before';
