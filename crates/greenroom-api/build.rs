//! Embeds the web page anew when a file of it comes or goes.

fn main() {
    println!("cargo::rerun-if-changed=ui");
}
