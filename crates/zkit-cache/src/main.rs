//! `zkit-cache`: the same as `zkit cache`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_cache::Cache>()
}
