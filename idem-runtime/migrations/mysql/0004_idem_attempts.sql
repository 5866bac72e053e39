-- One row for each message that is being tried again, where its broker does not count deliveries. It goes when the message is settled.
CREATE TABLE IF NOT EXISTS idem_records_attempts (
    scope       VARBINARY(255) NOT NULL COMMENT 'which queue',
    action_key  VARBINARY(255) NOT NULL COMMENT 'which message: what its broker keeps of it, or a digest of its payload',
    attempts    BIGINT NOT NULL COMMENT 'how often it was begun',
    first_at    DATETIME(6) NOT NULL COMMENT 'UTC',
    keep_until  DATETIME(6) NOT NULL COMMENT 'UTC; the row may be purged after this',
    PRIMARY KEY (scope, action_key),
    KEY idem_records_attempts_keep_until (keep_until)
) ENGINE = InnoDB;
