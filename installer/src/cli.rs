//! The command line and the environment, from raw text to a checked configuration. Imports no other folder.

pub mod command;
pub mod config;
pub mod entry;
pub mod settings;
