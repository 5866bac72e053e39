#[idempotent(key = "msg.out_trade_no + ':REFUND:' + msg.refund_no", store = "db")]
pub async fn on_refund(db: &mut MySqlConnection, msg: &RefundCallback) -> Result<u64, PayError> {
    refund(db, msg).await
}

// ---- becomes ----

pub async fn on_refund(
    db: &::idem_runtime::Store<MySqlConnection>,
    msg: &RefundCallback,
) -> ::idem_runtime::Handled<Result<u64, PayError>> {
    struct on_refund__msg_out_trade_no;
    struct on_refund__msg_refund_no;
    let part_0 = &msg.out_trade_no;
    let part_2 = &msg.refund_no;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_refund"),
        )
        .named_part(on_refund__msg_out_trade_no, part_0)
        .text(":REFUND:")
        .named_part(on_refund__msg_refund_no, part_2)
        .finish();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<u64, PayError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        refund(db, msg).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
