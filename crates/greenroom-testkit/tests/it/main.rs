//! The kit tested with itself: the fake server through the plain clients, the site over a plain connection.

mod asking;
mod content;
mod failing;
mod faults;
mod http;
mod listing;
mod processes;
mod protocol;
mod site;
mod start;
mod waiting;
