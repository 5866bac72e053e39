// The business table's own unique index is the claim.
#[idempotent(
    guard = "INSERT INTO account_flow (account, biz_no, amount) VALUES ({msg.account}, {msg.biz_no}, {msg.cents()})",
    unique = "uq_account_flow_biz_no",
    store = db,
    scope = "points.credit",
    delivery = msg.delivery_no,
)]
pub async fn credit_points(db: &mut PgConnection, msg: &Credit) -> Result<(), sqlx::Error> {
    credit(db, &msg.account, msg.cents()).await
}

// ---- becomes ----

pub async fn credit_points(
    db: &::idem_runtime::Store<PgConnection>,
    msg: &Credit,
) -> ::idem_runtime::Handled<Result<(), sqlx::Error>> {
    let key = ::idem_runtime::Key::unrecorded("points.credit")
        .delivery(&msg.delivery_no)
        .finish();
    let guard = ::idem_runtime::Guard::insert(
            "INSERT INTO account_flow (account, biz_no, amount) VALUES ({}, {}, {})",
        )
        .on(db)
        .unique("uq_account_flow_biz_no")
        .bind(&msg.account)
        .bind(&msg.biz_no)
        .bind(&msg.cents());
    let mut unit = match db.claim_guarded(key, guard).await? {
        ::idem_runtime::Guarded::First(unit) => unit,
        ::idem_runtime::Guarded::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
        ::idem_runtime::Guarded::Ignored(ignored) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Ignored(ignored));
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<(), sqlx::Error>>;
    let result = async move {
        if false {
            return idem_never();
        }
        credit(db, &msg.account, msg.cents()).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
