-- One row for each piece of work outside the database: begun, and done when done_at is set.
CREATE TABLE IF NOT EXISTS idem_records_leases (
    scope       VARBINARY(255) NOT NULL COMMENT 'which handler',
    action_key  VARBINARY(255) NOT NULL COMMENT 'which business fact',
    fence       BIGINT NOT NULL COMMENT 'grows with each owner',
    attempt     VARBINARY(16) NOT NULL COMMENT 'the owner',
    attempts    BIGINT NOT NULL COMMENT 'how often the work was begun',
    delivery_id VARBINARY(255) NULL COMMENT 'the delivery that began it last, as the broker named it',
    fingerprint VARBINARY(64) NULL COMMENT 'of the payload',
    message     MEDIUMTEXT CHARACTER SET utf8mb4 NULL COMMENT 'the message, where its handler keeps it',
    result      MEDIUMBLOB NULL COMMENT 'of the body, where its handler keeps it',
    begun_at    DATETIME(6) NOT NULL COMMENT 'UTC; for the first time',
    lease_until DATETIME(6) NOT NULL COMMENT 'UTC; another owner may take over after this',
    done_at     DATETIME(6) NULL COMMENT 'UTC',
    keep_until  DATETIME(6) NOT NULL COMMENT 'UTC; repeats after this are late, the row of finished work may be purged',
    PRIMARY KEY (scope, action_key),
    KEY idem_records_leases_keep_until (keep_until)
) ENGINE = InnoDB;
