// Runs before anything is painted, so that nobody sees the other theme first.
(() => {
  try {
    const chosen = JSON.parse(localStorage.getItem("greenroom.theme") ?? "null");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
  } catch {
    // The system's choice holds.
  }
})();
