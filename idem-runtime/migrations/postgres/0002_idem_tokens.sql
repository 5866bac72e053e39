-- One row for each one-time token that was issued. The token itself is not here: its key is a digest of it.
CREATE TABLE IF NOT EXISTS idem_records_tokens (
    scope       text COLLATE "C" NOT NULL, -- which handler takes it
    action_key  text COLLATE "C" NOT NULL, -- token:<digest>, as its burning is recorded
    issued_at   timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    keep_until  timestamptz NOT NULL,      -- the row may be purged after this
    PRIMARY KEY (action_key, scope)
);
CREATE INDEX IF NOT EXISTS idem_records_tokens_keep_until ON idem_records_tokens (keep_until);
