//! The plugin from outside: environment and stdin in, one JSON document, an exit code and the kernel's rules out.

mod nft;
mod ruleset;
