use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct PointsEarned {
    pub member_no: u64,
}

#[idempotent(key = msg_id, store = db)]
pub async fn on_points(db: &mut MySqlConnection, msg_id: &str, msg: &PointsEarned) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE members SET points = points + 1 WHERE no = ?").bind(msg.member_no).execute(&mut *db).await?;
    println!("{msg_id}");
    Ok(())
}

fn main() {}
