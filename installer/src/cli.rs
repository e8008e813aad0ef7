//! From the command line and the environment to a checked configuration.

pub mod command;
pub mod config;
pub mod entry;
pub mod settings;
