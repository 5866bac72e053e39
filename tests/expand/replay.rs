// A repeat gets the first result.
#[idempotent(key = order.submit_no, store = db, scope = "order.submit", replay(version = 2, limit = 4096, redact = hide_card))]
pub async fn submit(db: &mut PgConnection, order: &Order) -> Result<Receipt, OrderError> {
    place(db, order).await
}

// ---- becomes ----

pub async fn submit(
    db: &::idem_runtime::Store<PgConnection>,
    order: &Order,
) -> ::idem_runtime::Replayed<Result<Receipt, OrderError>> {
    struct submit__order_submit_no;
    let key = ::idem_runtime::Key::scope("order.submit")
        .named_part(submit__order_submit_no, &order.submit_no)
        .finish();
    let keep = ::idem_runtime::Keep::new().version(2).limit(4096).redact(hide_card);
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(
                ::idem_runtime::Outcome::Duplicate(seen.replay(&keep)),
            );
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<Receipt, OrderError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        place(db, order).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit_and_keep(value, &keep).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
