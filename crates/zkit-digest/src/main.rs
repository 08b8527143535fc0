//! `zkit-digest`: the same as `zkit digest`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_digest::Digest>()
}
