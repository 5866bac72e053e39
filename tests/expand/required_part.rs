#[idempotent(key = msg.order_no + ":" + msg.refund_no?, store = db)]
async fn on_refund(mut db: &mut PgConnection, msg: &RefundCallback) -> Result<(), PayError> {
    refund(&mut db, msg).await?;
    Ok(())
}

// ---- becomes ----

async fn on_refund(
    db: &::idem_runtime::Store<PgConnection>,
    msg: &RefundCallback,
) -> ::idem_runtime::Handled<Result<(), PayError>> {
    struct on_refund__msg_order_no;
    struct on_refund__msg_refund_no;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_refund"),
        )
        .named_part(on_refund__msg_order_no, &msg.order_no)
        .text(":")
        .required(on_refund__msg_refund_no, &msg.refund_no)
        .finish();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let mut db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<(), PayError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        refund(&mut db, msg).await?;
        Ok(())
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
