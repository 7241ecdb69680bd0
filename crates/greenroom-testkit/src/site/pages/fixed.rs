//! Pages that are the same for everyone, kept as markup beside this file.

pub(in crate::site) struct Page {
    pub(in crate::site) path: &'static str,
    pub(in crate::site) title: &'static str,
    pub(in crate::site) body: &'static str,
    /// Whether the index leads there; the others are reached from another page.
    pub(in crate::site) is_listed: bool,
}

pub(in crate::site) const PAGES: &[Page] = &[
    listed("/links", "Links", include_str!("links.html")),
    listed("/form", "Form", include_str!("form.html")),
    listed("/upload", "Upload", include_str!("upload.html")),
    listed("/storage", "Storage", include_str!("storage.html")),
    listed("/console", "Console", include_str!("console.html")),
    listed("/download", "Download", include_str!("download.html")),
    listed("/changing", "Changing page", include_str!("changing.html")),
    listed("/static-text", "Static text", include_str!("static_text.html")),
    listed("/animated", "Animation", include_str!("animated.html")),
    listed("/target", "Target", include_str!("target.html")),
    listed("/dialogs", "Dialogs", include_str!("dialogs.html")),
    listed("/popup", "Popup", include_str!("popup.html")),
    reached("/popup/child", "Popup window", include_str!("popup_child.html")),
    listed("/iframe", "Frame", include_str!("iframe.html")),
    reached("/iframe/inner", "Inner page", include_str!("iframe_inner.html")),
];

pub(in crate::site) fn find(path: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.path == path)
}

const fn listed(path: &'static str, title: &'static str, body: &'static str) -> Page {
    Page { path, title, body, is_listed: true }
}

const fn reached(path: &'static str, title: &'static str, body: &'static str) -> Page {
    Page { path, title, body, is_listed: false }
}
