//! Trap `random`: a guide number, whose name begins like guid.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct TourBooked {
    pub guide_no: i64,
    pub tour_no: i64,
}

#[idempotent(key = msg.guide_no + ":" + msg.tour_no, store = db)]
pub async fn on_tour_booked(db: &mut PgConnection, msg: &TourBooked) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE tours SET booked = TRUE WHERE no = $1").bind(msg.tour_no).execute(&mut *db).await?;
    Ok(())
}
