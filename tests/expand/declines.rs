// The body may say "not now".
#[idempotent(key = event.order_no, store = db, scope = "order.paid", declines)]
pub async fn on_paid(db: &mut PgConnection, event: &Paid) -> Result<Decision<()>, sqlx::Error> {
    if !order_exists(db, event).await? {
        return Ok(Decision::retry("the order is not here yet"));
    }
    mark_paid(db, event).await?;
    Ok(Decision::Done(()))
}

// ---- becomes ----

pub async fn on_paid(
    db: &::idem_runtime::Store<PgConnection>,
    event: &Paid,
) -> ::idem_runtime::Handled<
    ::idem_runtime::Decided<Result<Decision<()>, sqlx::Error>>,
> {
    struct on_paid__event_order_no;
    let key = ::idem_runtime::Key::scope("order.paid")
        .named_part(on_paid__event_order_no, &event.order_no)
        .finish();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<
        Result<Decision<()>, sqlx::Error>,
    >;
    let result = async move {
        if false {
            return idem_never();
        }
        if !order_exists(db, event).await? {
            return Ok(Decision::retry("the order is not here yet"));
        }
        mark_paid(db, event).await?;
        Ok(Decision::Done(()))
    }
        .await;
    return match result {
        ::core::result::Result::Ok(::idem_runtime::Decision::Done(value)) => {
            unit.commit(value).await
        }
        ::core::result::Result::Ok(::idem_runtime::Decision::Declined(decline)) => {
            unit.decline(decline).await
        }
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
