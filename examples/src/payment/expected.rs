//! The balances that should come out, from the notification files alone: each business fact counts once, however often
//! it was delivered.

use super::{
    error::StoryError,
    notification::{self, Fact, Merchant, MerchantNo, Notification},
};
use crate::money::Cents;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What one order comes to.
#[derive(Debug)]
struct Order {
    merchant: Merchant,
    paid: Option<Cents>,
    /// What each refund gave back (WeChat Pay).
    refunds: BTreeMap<MerchantNo, Cents>,
    /// What all refunds up to this one gave back (Alipay): the largest sum is the last.
    refund_sums: BTreeMap<MerchantNo, Cents>,
}

/// All notifications under the data folder, with their files.
pub(crate) fn read(data: &Path) -> Result<Vec<(PathBuf, Notification)>, StoryError> {
    let mut read = Vec::new();
    for folder in notification::files(data)?.into_iter().filter(|entry| entry.is_dir()) {
        for file in notification::files(&folder)? {
            let notification = Notification::read(&file)?;
            read.push((file, notification));
        }
    }
    Ok(read)
}

/// The balance of each merchant.
pub(crate) fn balances(notifications: &[(PathBuf, Notification)]) -> Result<BTreeMap<Merchant, Cents>, StoryError> {
    let mut orders: BTreeMap<MerchantNo, Order> = BTreeMap::new();
    for (path, notification) in notifications {
        let (merchant, order_no) = notification.order();
        let order = orders.entry(order_no.clone()).or_insert_with(|| Order {
            merchant: merchant.clone(),
            paid: None,
            refunds: BTreeMap::new(),
            refund_sums: BTreeMap::new(),
        });
        let agrees = order.merchant == *merchant
            && match notification.fact() {
                Fact::Paid(amount) => *order.paid.get_or_insert(amount) == amount,
                Fact::Refunded(refund_no, amount) => *order.refunds.entry(refund_no).or_insert(amount) == amount,
                Fact::RefundedSoFar(refund_no, sum) => *order.refund_sums.entry(refund_no).or_insert(sum) == sum,
                Fact::NoMoney => true,
            };
        if !agrees {
            return Err(StoryError::Contradiction { path: path.clone(), order: order_no.clone() });
        }
    }
    let mut balances = BTreeMap::new();
    for order in orders.into_values() {
        let last_sum = order.refund_sums.into_values().max().unwrap_or_default();
        let out = order.refunds.into_values().try_fold(last_sum, Cents::plus);
        let balance: &mut Cents = balances.entry(order.merchant).or_default();
        *balance = out
            .and_then(|out| order.paid.unwrap_or_default().minus(out))
            .and_then(|net| balance.plus(net))
            .ok_or(StoryError::OutOfRange)?;
    }
    Ok(balances)
}

#[cfg(test)]
mod tests {
    use super::{balances, read};
    use crate::{
        money::Cents,
        payment::{
            DATA,
            act::ACTS,
            error::StoryError,
            notification::{self, Merchant, Notification},
        },
    };
    use std::{collections::BTreeSet, fs, path::Path};

    fn merchant(channel: &'static str, id: &str) -> Merchant {
        Merchant { channel, id: id.into() }
    }

    #[test]
    fn every_data_file_is_a_notification() {
        let read = read(Path::new(DATA)).unwrap_or_else(|error| panic!("{error}"));
        assert!(read.len() > 30);
        for (file, notification) in &read {
            let says = file.file_stem().unwrap().to_str().unwrap();
            let kind = match notification {
                Notification::AlipayTrade(_) => ["alipay-paid", "alipay-finished"].as_slice(),
                Notification::AlipayRefund(_) => &["alipay-refund"],
                Notification::WechatTransaction(_) => &["wechat-paid"],
                Notification::WechatRefund(_) => &["wechat-refund"],
            };
            assert!(kind.iter().any(|kind| says.contains(kind)), "{says}: {notification:?}");
        }
    }

    #[test]
    fn every_folder_has_its_act_and_every_act_its_folder() {
        let folders: BTreeSet<_> = notification::files(Path::new(DATA))
            .unwrap()
            .into_iter()
            .filter(|entry| entry.is_dir())
            .map(|entry| entry.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(folders, ACTS.iter().map(|act| act.folder.to_owned()).collect());
    }

    #[test]
    fn the_data_redelivers_under_the_same_and_under_other_ids() {
        let all = read(Path::new(DATA)).unwrap();
        let keys: BTreeSet<_> = all.iter().map(|(_, notification)| notification.key()).collect();
        let ids: BTreeSet<_> = all.iter().map(|(_, notification)| notification.delivery_id()).collect();
        assert!(keys.len() < ids.len(), "one fact, several ids");
        assert!(ids.len() < all.len(), "one id, several deliveries");
    }

    /// Worked out by hand, as in the data folder's README.
    #[test]
    fn the_expected_balances_are_these() {
        let balances = balances(&read(Path::new(DATA)).unwrap()).unwrap();
        let expected = [
            (merchant("Alipay", "2088000000000101"), Cents::new(8888 - 5000 + 31000)),
            (merchant("Alipay", "2088000000000202"), Cents::new(4500)),
            (merchant("WeChat", "1900000101"), Cents::new(12800 - 2800 - 5000 + 6660)),
            (merchant("WeChat", "1900000202"), Cents::new(30000 - 12000 - 7550 + 5990)),
        ];
        assert_eq!(balances, expected.into());
    }

    #[test]
    fn files_that_contradict_each_other_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let paid = fs::read_to_string(Path::new(DATA).join("2-at-once/01-wechat-paid.json")).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            let notification = Notification::read(&path).unwrap();
            (path, notification)
        };
        let one = write("1.json", &paid);
        let same = write("2.json", &paid.replace("EV-", "EV-OTHER-"));
        let other_amount = write("3.json", &paid.replace("6660", "6661"));
        let other_merchant = write("4.json", &paid.replace("1900000101", "1900000999"));
        assert_eq!(balances(&[one.clone(), same]).unwrap().into_values().next(), Some(Cents::new(6660)));
        let sum = fs::read_to_string(Path::new(DATA).join("1-redelivered/04-alipay-refund-1.form")).unwrap();
        let refund = write("5.form", &sum);
        let other_sum = write("6.form", &sum.replace("refund_fee=20.00", "refund_fee=20.01"));
        for (one, other) in [(&one, other_amount), (&one, other_merchant), (&refund, other_sum)] {
            assert!(matches!(balances(&[one.clone(), other]), Err(StoryError::Contradiction { .. })));
        }
    }
}
