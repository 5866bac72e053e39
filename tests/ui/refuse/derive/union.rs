use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub union Either {
    pub small: u32,
    pub large: u64,
}

fn main() {}
