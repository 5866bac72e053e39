// A one-time token is the identity; both kinds of answer together.
#[idempotent(token = form.token, store = db, scope = "order.submit", replay, declines)]
pub async fn submit(db: &mut PgConnection, form: &Form) -> Result<Decision<Receipt>, OrderError> {
    place(db, form).await
}

// ---- becomes ----

pub async fn submit(
    db: &::idem_runtime::Store<PgConnection>,
    form: &Form,
) -> ::idem_runtime::Replayed<
    ::idem_runtime::Decided<Result<Decision<Receipt>, OrderError>>,
> {
    let key = ::idem_runtime::Key::token("order.submit", &form.token).finish();
    let keep = ::idem_runtime::Keep::new();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(
                ::idem_runtime::Outcome::Duplicate(seen.replay(&keep)),
            );
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<
        Result<Decision<Receipt>, OrderError>,
    >;
    let result = async move {
        if false {
            return idem_never();
        }
        place(db, form).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(::idem_runtime::Decision::Done(value)) => {
            unit.commit_and_keep(value, &keep).await
        }
        ::core::result::Result::Ok(::idem_runtime::Decision::Declined(decline)) => {
            unit.decline(decline).await
        }
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
