use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub struct OrderNo {
    pub shop: u32,
    pub number: u64,
}

fn main() {}
