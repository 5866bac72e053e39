#[idempotent(key = msg.out_trade_no + ":" + msg.trade_status, store = db)]
pub async fn on_payment(db: &mut PgConnection, msg: &PaymentCallback) -> Result<(), PayError> {
    sqlx::query("UPDATE orders SET status = 'PAID' WHERE order_no = $1")
        .bind(&msg.out_trade_no)
        .execute(&mut *db)
        .await?;
    Ok(())
}

// ---- becomes ----

pub async fn on_payment(
    db: &::idem_runtime::Store<PgConnection>,
    msg: &PaymentCallback,
) -> ::idem_runtime::Handled<Result<(), PayError>> {
    struct on_payment__msg_out_trade_no;
    struct on_payment__msg_trade_status;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_payment"),
        )
        .named_part(on_payment__msg_out_trade_no, &msg.out_trade_no)
        .text(":")
        .named_part(on_payment__msg_trade_status, &msg.trade_status)
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
        sqlx::query("UPDATE orders SET status = 'PAID' WHERE order_no = $1")
            .bind(&msg.out_trade_no)
            .execute(&mut *db)
            .await?;
        Ok(())
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
