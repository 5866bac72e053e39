-- One row for each one-time token that was issued. The token itself is not here: its key is a digest of it.
CREATE TABLE IF NOT EXISTS idem_records_tokens (
    scope       TEXT NOT NULL COLLATE BINARY, -- which handler takes it
    action_key  TEXT NOT NULL COLLATE BINARY, -- token:<digest>, as its burning is recorded
    issued_at   TEXT NOT NULL,                -- UTC, 2026-01-31T08:15:00.000Z
    expires_at  TEXT NOT NULL,                -- UTC
    keep_until  TEXT NOT NULL,                -- UTC; the row may be purged after this
    PRIMARY KEY (action_key, scope)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idem_records_tokens_keep_until ON idem_records_tokens (keep_until);
