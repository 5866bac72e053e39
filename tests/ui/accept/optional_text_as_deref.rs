//! Trap `null`: a conversion of an optional text before it is required.

use idem_runtime::idempotent;
use sqlx::SqliteConnection;

pub struct InvoicePaid {
    pub invoice_no: Option<String>,
}

#[idempotent(key = msg.invoice_no.as_deref()?, store = db)]
pub async fn on_invoice_paid(db: &mut SqliteConnection, msg: &InvoicePaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE invoices SET paid = TRUE WHERE no = ?").bind(&msg.invoice_no).execute(&mut *db).await?;
    Ok(())
}
