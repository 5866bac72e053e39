use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct LotteryDrawn {
    pub draw_no: u32,
}

#[idempotent(key = "msg.draw_no + ':' + rand::random()", store = "db")]
pub async fn on_draw(db: &mut MySqlConnection, msg: &LotteryDrawn) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE draws SET closed = TRUE WHERE no = ?").bind(msg.draw_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
