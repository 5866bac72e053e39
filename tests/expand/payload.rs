// The amount must be the same each time.
#[idempotent(key = msg.out_trade_no, store = db, payload = msg.amount + ":" + msg.currency)]
pub async fn on_payment(db: &mut PgConnection, msg: &PaymentCallback) -> Result<(), PayError> {
    credit(db, &msg.account, msg.amount).await
}

// ---- becomes ----

pub async fn on_payment(
    db: &::idem_runtime::Store<PgConnection>,
    msg: &PaymentCallback,
) -> ::idem_runtime::Handled<Result<(), PayError>> {
    struct on_payment__msg_out_trade_no;
    struct on_payment__payload_msg_amount;
    impl<T: ?::core::marker::Sized> ::idem_runtime::AllowsNull<T>
    for on_payment__payload_msg_amount {}
    struct on_payment__payload_msg_currency;
    impl<T: ?::core::marker::Sized> ::idem_runtime::AllowsNull<T>
    for on_payment__payload_msg_currency {}
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_payment"),
        )
        .named_part(on_payment__msg_out_trade_no, &msg.out_trade_no)
        .payload(
            ::idem_runtime::Payload::new()
                .named_part(on_payment__payload_msg_amount, &msg.amount)
                .text(":")
                .named_part(on_payment__payload_msg_currency, &msg.currency),
        )
        .finish();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<(), PayError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        credit(db, &msg.account, msg.amount).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
