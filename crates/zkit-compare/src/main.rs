//! `zkit-compare`: the same as `zkit compare`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_compare::Compare>()
}
