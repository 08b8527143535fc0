//! `zkit-partials`: the same as `zkit partials`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_partials::Partials>()
}
