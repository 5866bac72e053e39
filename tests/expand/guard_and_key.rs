// The key says "seen before?", the guard "allowed now?".
#[idempotent(
    key = msg.notify_no,
    guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'WAIT_PAY'",
    store = db,
    retry = 3,
)]
pub async fn on_payment(db: &mut PgConnection, msg: &PaymentCallback) -> Result<(), PayError> {
    credit(db, &msg.account, msg.amount).await
}

// ---- becomes ----

pub async fn on_payment(
    db: &::idem_runtime::Store<PgConnection>,
    msg: &PaymentCallback,
) -> ::idem_runtime::Handled<Result<(), PayError>> {
    struct on_payment__msg_notify_no;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_payment"),
        )
        .named_part(on_payment__msg_notify_no, &msg.notify_no)
        .finish();
    let mut retry = ::idem_runtime::Retry::new(key, 3);
    loop {
        let guard = ::idem_runtime::Guard::change(
                "UPDATE orders SET status = 'PAID' WHERE order_no = {} AND status = 'WAIT_PAY'",
            )
            .on(db)
            .bind(&msg.order_no)
            .exists("SELECT 1 FROM orders WHERE order_no = {}")
            .bind_exists(&msg.order_no);
        let mut unit = match retry.claim_guarded(db, guard).await? {
            ::idem_runtime::Guarded::First(unit) => unit,
            ::idem_runtime::Guarded::Duplicate(seen) => {
                return ::core::result::Result::Ok(
                    ::idem_runtime::Outcome::Duplicate(seen),
                );
            }
            ::idem_runtime::Guarded::Ignored(ignored) => {
                return ::core::result::Result::Ok(
                    ::idem_runtime::Outcome::Ignored(ignored),
                );
            }
        };
        let db = unit.connection();
        let idem_never = ::idem_runtime::expansion::never::<Result<(), PayError>>;
        let result = async {
            if false {
                return idem_never();
            }
            credit(db, &msg.account, msg.amount).await
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
