#[idempotent(key = msg.order_no() + "/" + msg.line.0.1 + "-" + KIND + crate::ledger::BOOK + msg.r#type, store = db)]
async fn on_line(db: &mut SqliteConnection, msg: &Line) -> anyhow::Result<()> {
    use LineKind::*;
    match msg.kind {
        Sale => book(db, msg).await,
        Return => take_back(db, msg).await,
    }
}

// ---- becomes ----

async fn on_line(
    db: &::idem_runtime::Store<SqliteConnection>,
    msg: &Line,
) -> ::idem_runtime::Handled<anyhow::Result<()>> {
    struct on_line__msg_order_no;
    struct on_line__msg_line_0_1;
    struct on_line__KIND;
    struct on_line__crate_ledger_BOOK;
    struct on_line__msg_type;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_line"),
        )
        .named_part(on_line__msg_order_no, &msg.order_no())
        .text("/")
        .named_part(on_line__msg_line_0_1, &msg.line.0.1)
        .text("-")
        .named_part(on_line__KIND, &KIND)
        .named_part(on_line__crate_ledger_BOOK, &crate::ledger::BOOK)
        .named_part(on_line__msg_type, &msg.r#type)
        .finish();
    let mut unit = match db.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let db = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<anyhow::Result<()>>;
    let result = async move {
        use LineKind::*;
        if false {
            return idem_never();
        }
        match msg.kind {
            Sale => book(db, msg).await,
            Return => take_back(db, msg).await,
        }
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
