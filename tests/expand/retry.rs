#[idempotent(key = order_no, store = db, retry = 3)]
async fn deduct(db: &mut MySqlConnection, order_no: &str, count: u32) -> Result<(), StockError> {
    take(db, order_no, count).await
}

impl Shop {
    #[idempotent(key = order_no, store = self.store, tx = db, retry = 3, scope = "retry.deduct")]
    async fn deduct(&self, db: &mut MySqlConnection, order_no: &str) -> Result<(), StockError> {
        take(db, order_no, self.count).await
    }
}

// ---- becomes ----

async fn deduct(
    db: &::idem_runtime::Store<MySqlConnection>,
    order_no: &str,
    count: u32,
) -> ::idem_runtime::Handled<Result<(), StockError>> {
    struct deduct__order_no;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::deduct"),
        )
        .named_part(deduct__order_no, &order_no)
        .finish();
    let mut retry = ::idem_runtime::Retry::new(key, 3);
    loop {
        let mut unit = match retry.claim(db).await? {
            ::idem_runtime::Claim::First(unit) => unit,
            ::idem_runtime::Claim::Duplicate(seen) => {
                return ::core::result::Result::Ok(
                    ::idem_runtime::Outcome::Duplicate(seen),
                );
            }
        };
        let db = unit.connection();
        let idem_never = ::idem_runtime::expansion::never::<Result<(), StockError>>;
        let result = async {
            if false {
                return idem_never();
            }
            take(db, order_no, count).await
        }
            .await;
        let ended = match result {
            ::core::result::Result::Ok(value) => unit.commit(value).await,
            ::core::result::Result::Err(error) => unit.roll_back(error).await,
        };
        if !retry.again(&ended).await {
            return ended;
        }
    }
}

impl Shop {
    async fn deduct(
        &self,
        order_no: &str,
    ) -> ::idem_runtime::Handled<Result<(), StockError>> {
        struct deduct__order_no;
        let key = ::idem_runtime::Key::scope("retry.deduct")
            .named_part(deduct__order_no, &order_no)
            .finish();
        let mut retry = ::idem_runtime::Retry::new(key, 3);
        loop {
            let mut unit = match retry.claim(&self.store).await? {
                ::idem_runtime::Claim::First(unit) => unit,
                ::idem_runtime::Claim::Duplicate(seen) => {
                    return ::core::result::Result::Ok(
                        ::idem_runtime::Outcome::Duplicate(seen),
                    );
                }
            };
            let db: &mut MySqlConnection = unit.connection();
            let idem_never = ::idem_runtime::expansion::never::<Result<(), StockError>>;
            let result = async {
                if false {
                    return idem_never();
                }
                take(db, order_no, self.count).await
            }
                .await;
            let ended = match result {
                ::core::result::Result::Ok(value) => unit.commit(value).await,
                ::core::result::Result::Err(error) => unit.roll_back(error).await,
            };
            if !retry.again(&ended).await {
                return ended;
            }
        }
    }
}
