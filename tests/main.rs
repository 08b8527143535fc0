//! Behaviour through the binary, offline, on the stores of `fixtures/`; and what must hold of the sources themselves.
//!
//! One harness, one file a behaviour. What other readers say of zkit's answers is in `tests/python`.

mod audit;
mod compare;
mod digest;
mod fixtures;
mod imports;
mod inspect;
mod modules;
mod readme;
mod recompress;
mod shell;
mod text;
