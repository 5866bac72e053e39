use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub enum Status {
    #[key_part(rename = "PAID")]
    Paid,
    Closed,
}

fn main() {}
