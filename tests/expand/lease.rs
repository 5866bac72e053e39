// Work outside the database: at least once.
#[idempotent(key = sms.order_no + ":shipped", store = lease, scope = "sms.shipped", lease = "30s")]
pub async fn send_sms(lease: &AtLeastOnceLease, sms: &Sms) -> Result<(), SmsError> {
    provider::send(sms, &lease.idempotency_key()).await
}

// ---- becomes ----

pub async fn send_sms(
    lease: &impl ::idem_runtime::Leases,
    sms: &Sms,
) -> ::idem_runtime::Handled<Result<(), SmsError>> {
    struct send_sms__sms_order_no;
    let key = ::idem_runtime::Key::scope("sms.shipped")
        .named_part(send_sms__sms_order_no, &sms.order_no)
        .text(":shipped")
        .finish();
    let held = match ::idem_runtime::Leases::begin(
            lease,
            key,
            ::core::time::Duration::from_millis(30000),
        )
        .await?
    {
        ::idem_runtime::Begun::First(held) => held,
        ::idem_runtime::Begun::Duplicate(seen) => {
            return ::core::result::Result::Ok(::idem_runtime::Outcome::Duplicate(seen));
        }
    };
    let lease: &AtLeastOnceLease = held.lease();
    let idem_never = ::idem_runtime::expansion::never::<Result<(), SmsError>>;
    let result = async move {
        if false {
            return idem_never();
        }
        provider::send(sms, &lease.idempotency_key()).await
    }
        .await;
    return match result {
        ::core::result::Result::Ok(value) => held.complete(value).await,
        ::core::result::Result::Err(error) => held.give_back(error).await,
    };
}
