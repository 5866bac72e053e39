use idem_runtime::idempotent;
use sqlx::MySqlConnection;

pub struct InvoicePaid {
    pub invoice_no: Option<String>,
}

#[idempotent(key = msg.invoice_no.as_ref(), store = db)]
pub async fn on_invoice_paid(db: &mut MySqlConnection, msg: &InvoicePaid) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE invoices SET paid = TRUE WHERE no = ?").bind(&msg.invoice_no).execute(&mut *db).await?;
    Ok(())
}

fn main() {}
