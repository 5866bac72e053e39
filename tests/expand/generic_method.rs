impl<C: Clock, B> Ledger<C, B>
where
    B: Book,
{
    #[idempotent(key = entry, store = db, scope = "generic_method.post")]
    pub(crate) async fn post<'a, E>(self: Arc<Self>, db: &mut PgConnection, entry: &'a E, notify: impl Fn(&E)) -> Result<&'a E, Box<dyn Error + Send + Sync>>
    where
        E: KeyPart<Risk = Stable> + Amount,
    {
        self.book.add(db, entry.amount()).await?;
        notify(entry);
        Ok(entry)
    }
}

// ---- becomes ----

impl<C: Clock, B> Ledger<C, B>
where
    B: Book,
{
    pub(crate) async fn post<'a, E>(
        self: Arc<Self>,
        db: &::idem_runtime::Store<PgConnection>,
        entry: &'a E,
        notify: impl Fn(&E),
    ) -> ::idem_runtime::Handled<Result<&'a E, Box<dyn Error + Send + Sync>>>
    where
        E: KeyPart<Risk = Stable> + Amount,
    {
        struct post__entry;
        let key = ::idem_runtime::Key::scope("generic_method.post")
            .named_part(post__entry, &entry)
            .finish();
        let mut unit = match db.claim(key).await? {
            ::idem_runtime::Claim::First(unit) => unit,
            ::idem_runtime::Claim::Duplicate(seen) => {
                return ::core::result::Result::Ok(
                    ::idem_runtime::Outcome::Duplicate(seen),
                );
            }
        };
        let db = unit.connection();
        let idem_never = ::idem_runtime::expansion::never::<
            Result<&'a E, Box<dyn Error + Send + Sync>>,
        >;
        let result = async move {
            if false {
                return idem_never();
            }
            self.book.add(db, entry.amount()).await?;
            notify(entry);
            Ok(entry)
        }
            .await;
        return match result {
            ::core::result::Result::Ok(value) => unit.commit(value).await,
            ::core::result::Result::Err(error) => unit.roll_back(error).await,
        };
    }
}
