//! Embeds the web page anew when a file of it comes or goes.

#[expect(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]
fn main() {
    println!("cargo::rerun-if-changed=ui");
}
