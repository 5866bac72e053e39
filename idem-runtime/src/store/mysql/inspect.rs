//! Looks at a table of a store, and says what is wrong with it.

use crate::store::schema::{Kind, Table};
use sqlx::{MySqlConnection, Row as _};

/// The types that hold such a column, the usual one first, and the bytes that it must hold at least.
fn types(kind: Kind) -> (&'static [&'static str], i64) {
    match kind {
        Kind::Key => (&["varbinary", "varchar"], 255),
        Kind::Text => (&["varbinary", "varchar", "blob", "text"], 255),
        Kind::Attempt => (&["varbinary", "binary", "blob"], 16),
        Kind::Digest => (&["varbinary", "blob"], 64),
        Kind::LongText => (&["mediumtext", "longtext"], 0),
        Kind::LongBytes => (&["mediumblob", "longblob"], 0),
        Kind::Time => (&["datetime"], 0),
        Kind::Number => (&["bigint"], 0),
    }
}

pub(super) async fn inspect(
    connection: &mut MySqlConnection,
    table: &Table,
) -> Result<Option<Vec<String>>, sqlx::Error> {
    let quoted = table.name.quoted('`');
    let engine = sqlx::query(
        "SELECT CAST(engine AS CHAR), CAST(table_type AS CHAR) FROM information_schema.tables \
         WHERE table_schema = coalesce(?, database()) AND table_name = ?",
    )
    .bind(table.name.schema())
    .bind(table.name.name())
    .fetch_optional(&mut *connection)
    .await?;
    let Some(engine) = engine else { return Ok(None) };
    let mut faults = Vec::new();
    let engine: Option<String> = engine.try_get(0)?;
    if !engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("InnoDB")) {
        faults.push(format!(
            "its engine is {}, which does not roll back; run: ALTER TABLE {quoted} ENGINE = InnoDB",
            engine.as_deref().unwrap_or("none")
        ));
    }

    let columns = sqlx::query(
        "SELECT CAST(column_name AS CHAR), CAST(data_type AS CHAR), is_nullable = 'YES', \
         CAST(coalesce(collation_name, '') AS CHAR), CAST(coalesce(character_octet_length, 0) AS SIGNED) \
         FROM information_schema.columns WHERE table_schema = coalesce(?, database()) AND table_name = ?",
    )
    .bind(table.name.schema())
    .bind(table.name.name())
    .fetch_all(&mut *connection)
    .await?;
    for (name, kind) in table.columns() {
        let (types, least) = types(*kind);
        let (name, key) = (*name, *kind == Kind::Key);
        let mut found = None;
        for row in &columns {
            if row.try_get::<String, _>(0)?.eq_ignore_ascii_case(name) {
                found = Some(row);
            }
        }
        let Some(row) = found else {
            faults.push(format!("it has no column `{name}`"));
            continue;
        };
        let kind: String = row.try_get(1)?;
        if !types.contains(&kind.as_str()) {
            faults.push(format!("its column `{name}` is {kind}, and must be {}", types[0]));
        } else if row.try_get::<i64, _>(4)? < least {
            faults.push(format!("its column `{name}` is too short, and must hold {least} bytes"));
        }
        let repair = format!("run: ALTER TABLE {quoted} MODIFY {name} VARBINARY(255) NOT NULL");
        if key && row.try_get::<i64, _>(2)? != 0 {
            faults.push(format!("its column `{name}` may be null, and nulls never conflict; {repair}"));
        }
        // The only collations of text that compare byte for byte, trailing spaces included.
        let collation: String = row.try_get(3)?;
        if key && kind == "varchar" && !["utf8mb4_0900_bin", "utf8mb4_nopad_bin"].contains(&collation.as_str()) {
            faults.push(format!(
                "its column `{name}` has the collation {collation}, under which different keys are equal; {repair}"
            ));
        }
    }

    let unique: i64 = sqlx::query(
        "SELECT CAST(count(*) AS SIGNED) FROM (SELECT index_name FROM information_schema.statistics \
           WHERE table_schema = coalesce(?, database()) AND table_name = ? AND non_unique = 0 \
           GROUP BY index_name \
           HAVING count(*) = 2 AND sum(sub_part IS NOT NULL) = 0 \
              AND sum(lower(column_name) IN ('scope', 'action_key')) = 2) AS fit",
    )
    .bind(table.name.schema())
    .bind(table.name.name())
    .fetch_one(&mut *connection)
    .await?
    .try_get(0)?;
    if unique == 0 {
        faults.push(format!(
            "it has no unique index on exactly (scope, action_key); run: ALTER TABLE {quoted} ADD PRIMARY KEY (scope, action_key)"
        ));
    }
    Ok(Some(faults))
}
