//! Key parts from other crates, each behind the feature of its crate's name.
//!
//! Plain dates are stable: "one action a day" is a business rule. Instants and date-times move between sends; ids
//! that a generator makes are new on every send.

#[cfg(any(feature = "chrono", feature = "time", feature = "jiff", feature = "uuid", feature = "ulid"))]
use super::{
    encode::KeyWriter,
    part::{KeyPart, Moment, Random, Stable},
};

#[cfg(any(feature = "chrono", feature = "time", feature = "jiff", feature = "uuid", feature = "ulid"))]
macro_rules! part {
    ($type:ty, $risk:ty, $value:ident => $text:expr) => {
        part!(@ [] $type, $risk, $value => $text);
    };
    (@ [$($generics:tt)*] $type:ty, $risk:ty, $value:ident => $text:expr) => {
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> KeyPart for $type {
            type Risk = $risk;

            fn write_key(&self, out: &mut KeyWriter<'_>) {
                let $value = self;
                out.display($text);
            }
        }
    };
}

#[cfg(feature = "chrono")]
mod chrono_parts {
    use super::{KeyPart, KeyWriter, Moment, Stable};
    use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, TimeZone};

    part!(NaiveDate, Stable, date => format_args!("{}-{:02}-{:02}", date.year(), date.month(), date.day()));
    part!(NaiveDateTime, Moment<Self>, at => format_args!("{}.{:09}", at.and_utc().timestamp(), at.and_utc().timestamp_subsec_nanos()));
    part!(@ [Z: TimeZone] DateTime<Z>, Moment<Self>, at => format_args!("{}.{:09}", at.timestamp(), at.timestamp_subsec_nanos()));
}

#[cfg(feature = "time")]
mod time_parts {
    use super::{KeyPart, KeyWriter, Moment, Stable};
    use time::{Date, OffsetDateTime, PrimitiveDateTime};

    part!(Date, Stable, date => format_args!("{}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day()));
    part!(OffsetDateTime, Moment<Self>, at => at.unix_timestamp_nanos());
    part!(PrimitiveDateTime, Moment<Self>, at => at.assume_utc().unix_timestamp_nanos());
}

#[cfg(feature = "jiff")]
mod jiff_parts {
    use super::{KeyPart, KeyWriter, Moment, Stable};
    use jiff::{Timestamp, Zoned, civil};

    part!(civil::Date, Stable, date => format_args!("{}-{:02}-{:02}", date.year(), date.month(), date.day()));
    part!(Timestamp, Moment<Self>, at => at.as_nanosecond());
    part!(Zoned, Moment<Self>, at => at.timestamp().as_nanosecond());
    part!(civil::DateTime, Moment<Self>, at => at);
}

#[cfg(feature = "uuid")]
mod uuid_parts {
    use super::{KeyPart, KeyWriter, Random};

    part!(uuid::Uuid, Random<Self>, id => id.hyphenated());
}

#[cfg(feature = "ulid")]
mod ulid_parts {
    use super::{KeyPart, KeyWriter, Random};

    part!(ulid::Ulid, Random<Self>, id => id);
}
