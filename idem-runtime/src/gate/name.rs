use crate::key::Key;
use sha2::{Digest, Sha256};

/// What a gate files an action under: of one length, whatever the key, and for no two actions the same.
pub(super) fn digest(key: &Key) -> [u8; 32] {
    let scope = key.scope_name();
    let mut hash = Sha256::new();
    // The length says where the scope ends: either text may hold any separator.
    hash.update(u64::try_from(scope.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(scope);
    hash.update(key.text());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::digest;
    use crate::Key;

    #[test]
    fn actions_are_told_apart_wherever_the_separators_fall() {
        let name = |scope: &'static str, text: &str| digest(&Key::scope(scope).part(text).finish().unwrap());
        assert_ne!(name("a/b", "c"), name("a", "b/c"));
        assert_ne!(name("ab", "c"), name("a", "bc"));
        assert_ne!(name("a", "b"), name("A", "b"));
        assert_eq!(name("a", "b"), name("a", "b"));
    }

    /// Processes of different versions share a gate.
    #[test]
    fn the_name_of_an_action_never_changes() {
        let key = Key::scope("payment.callback").part("A1001").text(":").part("PAID").finish().unwrap();
        assert_eq!(crate::key::hex(&digest(&key)), "35d20901b8467fee68897805e90cfef74ec325202962dc3a63a493d2c880bdea");
    }
}
