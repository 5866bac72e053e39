use idem_runtime::idempotent;
use sqlx::PgConnection;

pub type BatchNo = Option<u32>;

pub struct PointsCredited {
    pub member_no: u64,
    pub batch_no: BatchNo,
}

#[idempotent(key = msg.member_no + ":" + msg.batch_no, store = db)]
pub async fn on_points_credited(db: &mut PgConnection, msg: &PointsCredited) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE members SET points = points + 1 WHERE no = $1")
        .bind(i64::try_from(msg.member_no).unwrap_or_default())
        .execute(&mut *db)
        .await?;
    Ok(())
}

fn main() {}
