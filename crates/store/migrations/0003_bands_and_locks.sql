-- One counter for every change of a rule: modes, spaces, and what else decides.
ALTER TABLE orgs RENAME COLUMN modes_version TO rules_version;
-- Whether automations may loosen the org's row.
ALTER TABLE modes ADD COLUMN lock TEXT NOT NULL DEFAULT 'open';
