//! `zkit-recompress`: the same as `zkit recompress`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_recompress::Recompress>()
}
