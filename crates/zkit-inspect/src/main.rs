//! `zkit-inspect`: the same as `zkit inspect`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_inspect::Inspect>()
}
