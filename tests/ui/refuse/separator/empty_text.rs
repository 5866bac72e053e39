use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct SeatTaken {
    pub row: u8,
    pub seat: u8,
}

#[idempotent(key = msg.row + "" + msg.seat, store = db)]
pub async fn on_seat_taken(db: &mut PgConnection, msg: &SeatTaken) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE seats SET taken = TRUE").execute(&mut *db).await?;
    Ok(())
}

fn main() {}
