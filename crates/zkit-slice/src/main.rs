//! `zkit-slice`: the same as `zkit slice`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_slice::Slice>()
}
