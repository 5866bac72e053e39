//! Trap `function`: a generic function with a lifetime.

use idem_runtime::idempotent;
use sqlx::PgConnection;

#[idempotent(key = order_no, store = db, scope = "generic_function.ship")]
pub async fn ship<'m, T: AsRef<str> + Sync>(
    db: &mut PgConnection,
    order_no: &'m str,
    notes: &'m [T],
) -> Result<usize, sqlx::Error> {
    for note in notes {
        sqlx::query("INSERT INTO notes (no, note) VALUES ($1, $2)")
            .bind(order_no)
            .bind(note.as_ref())
            .execute(&mut *db)
            .await?;
    }
    Ok(notes.len())
}
