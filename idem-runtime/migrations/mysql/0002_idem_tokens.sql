-- One row for each one-time token that was issued. The token itself is not here: its key is a digest of it.
CREATE TABLE IF NOT EXISTS idem_records_tokens (
    scope       VARBINARY(255) NOT NULL COMMENT 'which handler takes it',
    action_key  VARBINARY(255) NOT NULL COMMENT 'token:<digest>, as its burning is recorded',
    issued_at   DATETIME(6) NOT NULL COMMENT 'UTC',
    expires_at  DATETIME(6) NOT NULL COMMENT 'UTC',
    keep_until  DATETIME(6) NOT NULL COMMENT 'UTC; the row may be purged after this',
    PRIMARY KEY (action_key, scope),
    KEY idem_records_tokens_keep_until (keep_until)
) ENGINE = InnoDB;
