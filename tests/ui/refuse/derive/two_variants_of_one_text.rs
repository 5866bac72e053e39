use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub enum Status {
    #[key_part(text = "PAID")]
    Success,
    #[key_part(text = "PAID")]
    Finished,
}

fn main() {}
