// The overlay's one script. It may stand in a page as a module or as a plain script; what it loads lies beside it.
(() => {
  const here = document.currentScript;
  void import(here instanceof HTMLScriptElement ? new URL("overlay.js", here.src).href : "./overlay.js");
})();
