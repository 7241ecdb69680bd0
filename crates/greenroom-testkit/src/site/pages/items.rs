//! A list so long that it hurts, and a page for each item on it.

use super::super::html::{page, respond};
use crate::http1::Response;

const ITEMS: u32 = 5000;
/// More than this is a mistake in a test.
const MOST_ITEMS: u32 = 100_000;

const KINDS: [&str; 7] = ["lamp", "chair", "kettle", "clock", "radio", "mirror", "basket"];
const COLOURS: [&str; 5] = ["red", "green", "blue", "white", "black"];

/// The list as it is for everyone.
pub(in crate::site) fn list() -> String {
    list_of(u64::from(ITEMS))
}

/// A list of another length.
pub(in crate::site) fn list_of(items: u64) -> String {
    let items = u32::try_from(items).unwrap_or(MOST_ITEMS).min(MOST_ITEMS);
    let mut body = format!("<p>{items} items.</p>\n<ul class=\"items\">\n");
    for number in 1..=items {
        let (name, price) = (name(number), price(number));
        body.push_str(&format!(
            "<li><h2><a href=\"/items/{number}\">Item {number}: {name}</a></h2>\
             <span class=\"price\">{price}</span> \
             <button type=\"button\" aria-label=\"Add item {number} to the cart\">Add to cart</button></li>\n"
        ));
    }
    body.push_str("</ul>");
    page("Items", &body)
}

/// The page of one item, if there is one of this number.
pub(in crate::site) fn one(number: u32) -> Option<Response> {
    if !(1..=ITEMS).contains(&number) {
        return None;
    }
    let (name, price) = (name(number), price(number));
    let body = format!(
        "<p>A {name}.</p>\n<p>Price: <span class=\"price\">{price}</span></p>\n\
         <p><button type=\"button\">Add to cart</button> <a href=\"/items\">Back to the list</a></p>"
    );
    Some(respond(200, &format!("Item {number}"), &body))
}

fn name(number: u32) -> String {
    let pick = |words: &[&'static str]| words[number as usize % words.len()];
    format!("{} {}", pick(&COLOURS), pick(&KINDS))
}

fn price(number: u32) -> String {
    let cents = 499 + number * 37 % 9500;
    format!("\u{20ac}{}.{:02}", cents / 100, cents % 100)
}
