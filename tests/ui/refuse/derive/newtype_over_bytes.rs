use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub struct Digest(pub Vec<u8>);

fn main() {}
