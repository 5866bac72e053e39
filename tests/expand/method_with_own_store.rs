impl Inventory {
    /// Takes goods off the shelf.
    #[idempotent(key = self.warehouse + ":" + Self::KIND + msg.order_no, store = self.store, tx = db, scope = "method_with_own_store.on_reserve")]
    pub async fn on_reserve(&self, db: &mut PgConnection, msg: &Reserve) -> Result<u32, StockError> {
        if msg.quantity == 0 {
            return Err(StockError::Nothing);
        }
        self.take(db, &msg.sku, msg.quantity).await
    }
}

// ---- becomes ----

impl Inventory {
    /// Takes goods off the shelf.
    pub async fn on_reserve(
        &self,
        msg: &Reserve,
    ) -> ::idem_runtime::Handled<Result<u32, StockError>> {
        struct on_reserve__self_warehouse;
        struct on_reserve__Self_KIND;
        struct on_reserve__msg_order_no;
        let key = ::idem_runtime::Key::scope("method_with_own_store.on_reserve")
            .named_part(on_reserve__self_warehouse, &self.warehouse)
            .text(":")
            .named_part(on_reserve__Self_KIND, &Self::KIND)
            .named_part(on_reserve__msg_order_no, &msg.order_no)
            .finish();
        let mut unit = match self.store.claim(key).await? {
            ::idem_runtime::Claim::First(unit) => unit,
            ::idem_runtime::Claim::Duplicate(seen) => {
                return ::core::result::Result::Ok(
                    ::idem_runtime::Outcome::Duplicate(seen),
                );
            }
        };
        let db: &mut PgConnection = unit.connection();
        let idem_never = ::idem_runtime::expansion::never::<Result<u32, StockError>>;
        let result = async move {
            if false {
                return idem_never();
            }
            if msg.quantity == 0 {
                return Err(StockError::Nothing);
            }
            self.take(db, &msg.sku, msg.quantity).await
        }
            .await;
        return match result {
            ::core::result::Result::Ok(value) => unit.commit(value).await,
            ::core::result::Result::Err(error) => unit.roll_back(error).await,
        };
    }
}
