//! Trap `key_part`: a newtype over a newtype.

use idem_runtime::{KeyPart, idempotent};
use sqlx::MySqlConnection;

#[derive(KeyPart)]
pub struct Number(pub String);

#[derive(KeyPart)]
pub struct PatientNo {
    pub number: Number,
}

pub struct Visit {
    pub patient: PatientNo,
    pub visit: u32,
}

#[idempotent(key = msg.patient + "/" + msg.visit, store = db)]
pub async fn on_visit(db: &mut MySqlConnection, msg: &Visit) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE patients SET visits = visits + 1 WHERE no = ?")
        .bind(&msg.patient.number.0)
        .execute(&mut *db)
        .await?;
    Ok(())
}
