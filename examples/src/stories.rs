//! The stories there are.

#[cfg(feature = "brokers")]
use crate::{double_deduction, payment_callback};
use crate::{
    form, order_events, order_submit, payment, points, sms, stock,
    story::{Options, Scene},
    two_layers,
};
use std::{error::Error, io::Write, path::PathBuf};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    /// Callbacks of two payment platforms.
    Payment,
    /// Stock deduction.
    Stock,
    /// Points and balances.
    Points,
    /// A form that is submitted twice.
    Form,
    /// Events that overtake each other.
    OrderEvents,
    /// Redis and a database.
    TwoLayers,
    /// Work outside the database.
    Sms,
    /// Orders over HTTP.
    OrderSubmit,
    /// A lost ack on RabbitMQ.
    #[cfg(feature = "brokers")]
    DoubleDeduction,
    /// A callback that goes through RabbitMQ.
    #[cfg(feature = "brokers")]
    PaymentCallback,
}

impl Story {
    /// All of them, in the order in which they are listed.
    pub(crate) const ALL: &[Self] = &[
        Self::Payment,
        Self::Stock,
        Self::Points,
        Self::Form,
        Self::OrderEvents,
        Self::TwoLayers,
        Self::Sms,
        Self::OrderSubmit,
        #[cfg(feature = "brokers")]
        Self::DoubleDeduction,
        #[cfg(feature = "brokers")]
        Self::PaymentCallback,
    ];

    /// Its name on the command line, and that of its folders.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Stock => "stock",
            Self::Points => "points",
            Self::Form => "form",
            Self::OrderEvents => "order-events",
            Self::TwoLayers => "two-layers",
            Self::Sms => "sms",
            Self::OrderSubmit => "order-submit",
            #[cfg(feature = "brokers")]
            Self::DoubleDeduction => "double-deduction",
            #[cfg(feature = "brokers")]
            Self::PaymentCallback => "payment-callback",
        }
    }

    /// What it is about, in a line.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Payment => "payment callbacks of Alipay and WeChat Pay: key (the default)",
            Self::Stock => "stock deduction, returns, out of stock: key and payload",
            Self::Points => "points and their balance, flow and sum in one unit: an INSERT guard",
            Self::Form => "a form that is submitted twice: token and replay",
            Self::OrderEvents => "events out of order: declines, a state guard, a version guard",
            Self::TwoLayers => "Redis in front of the database: a gate (runs without Redis too)",
            Self::Sms => "an SMS that must not be sent twice: lease",
            Self::OrderSubmit => "orders over HTTP, double-clicked: Idempotency-Key and token",
            #[cfg(feature = "brokers")]
            Self::DoubleDeduction => "the ack is lost on RabbitMQ, and the money is taken twice: key",
            #[cfg(feature = "brokers")]
            Self::PaymentCallback => "a payment callback from HTTP through RabbitMQ: key",
        }
    }

    /// The folder of its data.
    pub(crate) fn data(self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(self.name())
    }

    /// Tells it. True when what came out with idem is right.
    pub(crate) async fn tell(
        self,
        options: &Options,
        out: impl Write,
        colour: bool,
    ) -> Result<bool, Box<dyn Error + Send + Sync>> {
        let right = match self {
            Self::Payment => payment::run(options, out, colour).await?,
            Self::Stock => stock::run(options, &mut Scene::new(out, colour)).await?,
            Self::Points => points::run(options, &mut Scene::new(out, colour)).await?,
            Self::Form => form::run(options, &mut Scene::new(out, colour)).await?,
            Self::OrderEvents => order_events::run(options, &mut Scene::new(out, colour)).await?,
            Self::TwoLayers => two_layers::run(options, &mut Scene::new(out, colour)).await?,
            Self::Sms => sms::run(options, &mut Scene::new(out, colour)).await?,
            Self::OrderSubmit => order_submit::run(options, &mut Scene::new(out, colour)).await?,
            #[cfg(feature = "brokers")]
            Self::DoubleDeduction => double_deduction::run(options, &mut Scene::new(out, colour)).await?,
            #[cfg(feature = "brokers")]
            Self::PaymentCallback => payment_callback::run(options, &mut Scene::new(out, colour)).await?,
        };
        Ok(right)
    }
}
