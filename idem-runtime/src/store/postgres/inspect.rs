//! Looks at a table of a store, and says what is wrong with it.

use crate::store::schema::{Kind, Table};
use sqlx::{PgConnection, Row as _};

/// The types that hold such a column, the usual one first.
const fn types(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Key | Kind::Text | Kind::LongText => &["text", "varchar"],
        Kind::Attempt | Kind::Digest | Kind::LongBytes => &["bytea"],
        Kind::Time => &["timestamptz"],
        Kind::Number => &["int8"],
    }
}

pub(super) async fn inspect(connection: &mut PgConnection, table: &Table) -> Result<Option<Vec<String>>, sqlx::Error> {
    let found = sqlx::query(
        "SELECT c.oid::bigint, c.relpersistence = 'p', c.relkind::text FROM pg_class c \
         WHERE c.oid = to_regclass($1)",
    )
    .bind(table.name.quoted('"'))
    .fetch_optional(&mut *connection)
    .await?;
    let Some(found) = found else { return Ok(None) };
    let oid: i64 = found.try_get(0)?;
    let mut faults = Vec::new();
    if found.try_get::<String, _>(2)? != "r" {
        faults.push("it is not an ordinary table".to_owned());
    }
    if !found.try_get::<bool, _>(1)? {
        faults.push(format!(
            "it is unlogged or temporary, so its records do not survive a crash; run: ALTER TABLE {} SET LOGGED",
            table.name.quoted('"')
        ));
    }

    let columns = sqlx::query(
        "SELECT a.attname::text, t.typname::text, a.attnotnull, coalesce(co.collisdeterministic, true) \
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation co ON co.oid = a.attcollation \
         WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped",
    )
    .bind(oid)
    .fetch_all(&mut *connection)
    .await?;
    for (name, kind) in table.columns() {
        let types = types(*kind);
        let (name, key) = (*name, *kind == Kind::Key);
        let mut found = None;
        for row in &columns {
            if row.try_get::<&str, _>(0)? == name {
                found = Some(row);
            }
        }
        let Some(row) = found else {
            faults.push(format!("it has no column `{name}`"));
            continue;
        };
        let kind: &str = row.try_get(1)?;
        if !types.contains(&kind) {
            faults.push(format!("its column `{name}` is {kind}, and must be {}", types[0]));
        }
        if key && !row.try_get::<bool, _>(2)? {
            faults.push(format!("its column `{name}` may be null, and nulls never conflict; make it NOT NULL"));
        }
        if key && !row.try_get::<bool, _>(3)? {
            faults.push(format!(
                "its column `{name}` has a collation under which different keys are equal; \
                 run: ALTER TABLE {} ALTER COLUMN {name} TYPE text COLLATE \"C\"",
                table.name.quoted('"')
            ));
        }
    }

    // A partial, deferred, half-built or wider index would let a second claim pass, or not serve ON CONFLICT.
    let unique: bool = sqlx::query(
        "SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid \
           AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 2 \
           AND NOT EXISTS (SELECT FROM unnest(i.indcollation::oid[]) c JOIN pg_collation co ON co.oid = c \
                           WHERE NOT co.collisdeterministic) \
           AND (SELECT array_agg(a.attname::text ORDER BY a.attname) \
                FROM unnest((i.indkey::int2[])[0:1]) k JOIN pg_attribute a \
                  ON a.attrelid = i.indrelid AND a.attnum = k) = ARRAY['action_key', 'scope'])",
    )
    .bind(oid)
    .fetch_one(&mut *connection)
    .await?
    .try_get(0)?;
    if !unique {
        faults.push(format!(
            "it has no unique index on exactly (scope, action_key); run: ALTER TABLE {} ADD PRIMARY KEY (scope, action_key)",
            table.name.quoted('"')
        ));
    }
    Ok(Some(faults))
}
