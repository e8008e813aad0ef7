//! The installer from outside: a node's directories before and after.
