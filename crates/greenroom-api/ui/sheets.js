/** Style sheets for shadow roots, from the files beside this one. They apply whatever a page's policy says on styles. */

/**
 * @param {string} name
 * @returns {Promise<CSSStyleSheet>}
 */
export async function sheet(name) {
  const made = new CSSStyleSheet();
  try {
    const response = await fetch(new URL(name, import.meta.url));
    if (response.ok) await made.replace(await response.text());
  } catch {
    // Without its style a view is plain, and works.
  }
  return made;
}
