/** The drawings on buttons: strokes on a grid of 24, in the colour of the text around them. */

const STROKES = {
  alert: ["M12 4 21 19.5H3z", "M12 10v4.5", "M12 17v.2"],
  back: ["M19 12H5", "M11 6l-6 6 6 6"],
  browser: ["M4 5h16a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1z", "M3 9h18", "M6 7h.2", "M9 7h.2"],
  camera: [
    "M4 8h3.5l1.5-2.5h6L16.5 8H20a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V9a1 1 0 0 1 1-1z",
    "M12 16.5a3.25 3.25 0 1 0 0-6.5 3.25 3.25 0 0 0 0 6.5z",
  ],
  check: ["M5 12.5l4.5 4.5L19 7.5"],
  close: ["M6 6l12 12", "M18 6 6 18"],
  copy: [
    "M9 9h10a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H9a1 1 0 0 1-1-1V10a1 1 0 0 1 1-1z",
    "M4.5 15.5A1 1 0 0 1 4 14.6V4.5a1 1 0 0 1 1-1h10a1 1 0 0 1 .9.5",
  ],
  down: ["M6 9.5l6 6 6-6"],
  expand: [
    "M4 9V5a1 1 0 0 1 1-1h4",
    "M15 4h4a1 1 0 0 1 1 1v4",
    "M20 15v4a1 1 0 0 1-1 1h-4",
    "M9 20H5a1 1 0 0 1-1-1v-4",
  ],
  file: [
    "M6 3.5h8l4.5 4.5v11.5a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1v-15a1 1 0 0 1 1-1z",
    "M13.5 3.5V8.5h5",
    "M8.5 13h7",
    "M8.5 16.5h5",
  ],
  forward: ["M5 12h14", "M13 6l6 6-6 6"],
  grip: ["M8 7h8", "M8 12h8", "M8 17h8"],
  hand: ["M6 4l5.5 15 2.3-6.2L20 10.5z", "M14 13l5 5"],
  history: ["M4 12a8 8 0 1 0 2.7-6", "M4 4.5V9h4.5", "M12 8v4.5l3 2"],
  info: ["M12 20.5a8.5 8.5 0 1 0 0-17 8.5 8.5 0 0 0 0 17z", "M12 11v5", "M12 8v.2"],
  keyboard: [
    "M4 6.5h16a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1z",
    "M7 10.5h.2",
    "M10.3 10.5h.2",
    "M13.6 10.5h.2",
    "M17 10.5h.2",
    "M8 14h8",
  ],
  left: ["M14.5 6l-6 6 6 6"],
  link: ["M14 5h5v5", "M19 5l-8 8", "M17 14v4a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V8a1 1 0 0 1 1-1h4"],
  minus: ["M6 12h12"],
  monitor: ["M4 5h16a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1z", "M9 20h6", "M12 16v4"],
  moon: ["M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z"],
  pause: ["M9 6v12", "M15 6v12"],
  person: ["M12 11.5a3.75 3.75 0 1 0 0-7.5 3.75 3.75 0 0 0 0 7.5z", "M5 20c.6-3.6 3.4-5.5 7-5.5s6.4 1.9 7 5.5"],
  play: ["M8 5.5v13l10.5-6.5z"],
  plus: ["M12 5v14", "M5 12h14"],
  reload: ["M20 12a8 8 0 1 1-2.7-6", "M20 4.5V9h-4.5"],
  resize: ["M19 10l-9 9", "M19 15l-4 4"],
  restore: [
    "M8.5 8.5h10a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-10a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1z",
    "M4.5 15V5.5a1 1 0 0 1 1-1H15",
  ],
  right: ["M9.5 6l6 6-6 6"],
  search: ["M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13z", "M15.5 15.5 20 20"],
  send: ["M12 19V5", "M6 11l6-6 6 6"],
  shrink: [
    "M9 4v4a1 1 0 0 1-1 1H4",
    "M20 9h-4a1 1 0 0 1-1-1V4",
    "M15 20v-4a1 1 0 0 1 1-1h4",
    "M4 15h4a1 1 0 0 1 1 1v4",
  ],
  sliders: [
    "M4 8h9",
    "M17 8h3",
    "M15 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
    "M4 16h3",
    "M11 16h9",
    "M9 18.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
  ],
  square: ["M6 5h12a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1z"],
  stop: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M9 9h6v6H9z"],
  sun: [
    "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8z",
    "M12 3v1.5",
    "M12 19.5V21",
    "M3 12h1.5",
    "M19.5 12H21",
    "M5.6 5.6l1.1 1.1",
    "M17.3 17.3l1.1 1.1",
    "M18.4 5.6l-1.1 1.1",
    "M6.7 17.3l-1.1 1.1",
  ],
  up: ["M6 14.5l6-6 6 6"],
};

/** @typedef {keyof typeof STROKES} IconName */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {IconName} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  for (const d of STROKES[name]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}
