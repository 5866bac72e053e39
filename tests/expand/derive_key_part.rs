#[derive(KeyPart)]
pub struct OrderNo(String);

#[derive(KeyPart)]
pub struct Id<T> {
    raw: u64,
    of: PhantomData<T>,
}

#[derive(KeyPart)]
pub struct Tagged<T>(T);

#[derive(KeyPart)]
pub enum Status {
    #[key_part(text = "PAID")]
    Paid,
    Refunded,
}

// ---- becomes ----

#[automatically_derived]
impl ::idem_runtime::KeyPart for OrderNo {
    type Risk = <String as ::idem_runtime::KeyPart>::Risk;
    fn write_key(&self, out: &mut ::idem_runtime::KeyWriter<'_>) {
        ::idem_runtime::KeyPart::write_key(&self.0, out);
    }
}

#[automatically_derived]
impl<T> ::idem_runtime::KeyPart for Id<T> {
    type Risk = <u64 as ::idem_runtime::KeyPart>::Risk;
    fn write_key(&self, out: &mut ::idem_runtime::KeyWriter<'_>) {
        ::idem_runtime::KeyPart::write_key(&self.raw, out);
    }
}

#[automatically_derived]
impl<T> ::idem_runtime::KeyPart for Tagged<T>
where
    T: ::idem_runtime::KeyPart,
{
    type Risk = <T as ::idem_runtime::KeyPart>::Risk;
    fn write_key(&self, out: &mut ::idem_runtime::KeyWriter<'_>) {
        ::idem_runtime::KeyPart::write_key(&self.0, out);
    }
}

#[automatically_derived]
impl ::idem_runtime::KeyPart for Status {
    type Risk = ::idem_runtime::Stable;
    fn write_key(&self, out: &mut ::idem_runtime::KeyWriter<'_>) {
        out.text(
            match self {
                Self::Paid => "PAID",
                Self::Refunded => "Refunded",
            },
        );
    }
}
