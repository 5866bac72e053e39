//! Trap `broker_id`: a contract number with the word offset in it.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct ContractSigned {
    pub contract_offset_no: String,
}

#[idempotent(key = msg.contract_offset_no, store = db)]
pub async fn on_contract(db: &mut PgConnection, msg: &ContractSigned) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE contracts SET signed = TRUE WHERE no = $1")
        .bind(&msg.contract_offset_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}
