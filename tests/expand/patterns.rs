#[idempotent(key = order_no + ":" + line, store = key)]
async fn on_line(
    Message { order_no, ref lines, .. }: Message,
    key: &mut SqliteConnection,
    (line, mut unit): (u32, u32),
    #[cfg(feature = "audit")] audit: &Audit,
    _: Context,
) -> Result<u32, StockError> {
    unit += lines[line as usize];
    write(key, unit).await
}

// ---- becomes ----

async fn on_line(
    Message { order_no, ref lines, .. }: Message,
    key: &::idem_runtime::Store<SqliteConnection>,
    (line, mut unit): (u32, u32),
    #[cfg(feature = "audit")]
    audit: &Audit,
    _: Context,
) -> ::idem_runtime::Handled<Result<u32, StockError>> {
    struct on_line__order_no;
    struct on_line__line;
    let key = ::idem_runtime::Key::handler(
            ::core::concat!(::core::module_path!(), "::on_line"),
        )
        .named_part(on_line__order_no, &order_no)
        .text(":")
        .named_part(on_line__line, &line)
        .finish();
    let mut unit = match key.claim(key).await? {
        ::idem_runtime::Claim::First(unit) => unit,
        ::idem_runtime::Claim::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let key = unit.connection();
    let idem_never = ::idem_runtime::expansion::never::<Result<u32, StockError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        unit += lines[line as usize];
        write(key, unit).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => unit.commit(value).await,
        ::core::result::Result::Err(error) => unit.roll_back(error).await,
    };
}
