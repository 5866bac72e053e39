//! Trap `guard`: values by path, accessor, index and call.

use idem_runtime::idempotent;
use sqlx::PgConnection;

pub struct Line {
    pub sku: String,
    pub qty: i64,
}

pub struct Sale {
    pub lines: Vec<Line>,
    pub version: i64,
}

impl Sale {
    pub fn sku(&self) -> &str {
        self.lines.first().map_or("", |line| &line.sku)
    }
}

pub struct Warehouse {
    pub id: i64,
}

impl Warehouse {
    #[idempotent(
        guard = "UPDATE stock SET count = count - {sale.lines.iter().map(|line| line.qty).sum::<i64>()}, version = version + 1 \
                 WHERE warehouse = {self.id} AND sku = {sale.sku()} AND version = {&sale.version} \
                 AND region <> {region.unwrap_or(\"}\")}",
        store = db,
        scope = "warehouse.sale",
    )]
    pub async fn on_sale(&self, db: &mut PgConnection, sale: &Sale, region: Option<&str>) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO picks (sku) VALUES ($1)").bind(sale.sku()).execute(&mut *db).await?;
        Ok(())
    }
}
