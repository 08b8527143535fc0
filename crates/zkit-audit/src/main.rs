//! `zkit-audit`: the same as `zkit audit`.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of::<zkit_audit::Audit>()
}
