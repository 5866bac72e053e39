#[idempotent(
    key = msg.order_no,
    scope = "payment.callback",
    store = db,
    delivery = msg.notify_id,
    record = msg,
    crate = crate::facade::idem,
)]
async fn on_payment(db: &mut PgConnection, msg: &Callback) -> Result<(), PayError> {
    pay(db, msg).await
}

// ---- becomes ----

async fn on_payment(
    db: &crate::facade::idem::Store<PgConnection>,
    msg: &Callback,
) -> crate::facade::idem::Handled<Result<(), PayError>> {
    struct on_payment__msg_order_no;
    let key = crate::facade::idem::Key::scope("payment.callback")
        .named_part(on_payment__msg_order_no, &msg.order_no)
        .delivery(&msg.notify_id)
        .record(&msg)
        .finish();
    let mut unit = match db.claim(key).await? {
        crate::facade::idem::Claim::First(unit) => unit,
        crate::facade::idem::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(
                crate::facade::idem::Outcome::Duplicate(seen),
            );
        }
    };
    let db = unit.connection();
    let idem_never = crate::facade::idem::expansion::never::<Result<(), PayError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        pay(db, msg).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
