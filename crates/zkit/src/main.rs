//! `zkit`: every command in one binary.

fn main() -> std::process::ExitCode {
    zkit_cli::main_of_all(zkit::ABOUT, zkit::COMMANDS)
}
