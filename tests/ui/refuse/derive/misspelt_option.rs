use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub enum Status {
    #[key_part(txt = "PAID")]
    Paid,
    Closed,
}

fn main() {}
