#[idempotent(
    key = msg.shop + ":" + msg.request_id,
    store = db,
    allow(random(msg.request_id), reason = "the client makes it once per submission"),
)]
async fn on_submit(db: &mut PgConnection, msg: &Submission) -> Result<OrderNo, OrderError> {
    place_order(db, msg).await
}

// ---- becomes ----

async fn on_submit(
    db: &::idem_runtime::Store<PgConnection>,
    msg: &Submission,
) -> ::idem_runtime::Handled<Result<OrderNo, OrderError>> {
    struct on_submit__msg_shop;
    struct on_submit__msg_request_id;
    impl<T: ?::core::marker::Sized> ::idem_runtime::AllowsRandom<T>
    for on_submit__msg_request_id {}
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_submit"),
        )
        .named_part(on_submit__msg_shop, &msg.shop)
        .text(":")
        .named_part(on_submit__msg_request_id, &msg.request_id)
        .finish();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<OrderNo, OrderError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        place_order(db, msg).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
