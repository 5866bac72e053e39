use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct LabelsPrinted {
    pub labels: Option<Vec<u32>>,
}

#[idempotent(key = msg.labels?, store = db)]
pub async fn on_labels(db: &mut SqliteConnection, msg: &LabelsPrinted) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE labels SET printed = TRUE WHERE no = ?")
        .bind(msg.labels.as_ref().map_or(0, |labels| labels[0]))
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
