//! Greenroom from the outside: the real binary, over every way in.

mod browser;
mod cli;
mod http;
mod pass_through;
mod rig;
mod stdio;
