"use strict";
// Draws figures in the colours of the page, beginning with visible ones, and redraws them when the colours change.
const Drawing = (function () {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 40rem)");
  const config = { displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]] };

  function roles() {
    const style = getComputedStyle(root);
    return (name) => style.getPropertyValue("--" + name).trim();
  }

  function coloured(value, role) {
    if (typeof value === "string") return value[0] === "@" ? role(value.slice(1)) : value;
    if (Array.isArray(value)) return typeof value[0] === "object" && value[0] ? value.map((one) => coloured(one, role)) : value;
    if (value && typeof value === "object") {
      const copy = {};
      for (const key of Object.keys(value)) copy[key] = coloured(value[key], role);
      return copy;
    }
    return value;
  }

  function axis(given, role, title) {
    return Object.assign({ automargin: true, gridcolor: role("grid"), zerolinecolor: role("rule"), linecolor: role("rule") }, given,
      { title: Object.assign({ font: { size: 12, color: role("quiet") }, standoff: title }, given.title) });
  }

  function layoutOf(figure, height, role) {
    const given = coloured(figure.layout, role);
    const layout = Object.assign({
      height: height,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 10, r: 14, t: 34, b: 10 },
      legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom", font: { size: 12 } },
      hoverlabel: { bgcolor: role("panel"), bordercolor: role("rule"), font: { color: role("ink") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: role("quiet"), activecolor: role("ink") },
      colorway: ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"].map(role), dragmode: narrow.matches ? false : "zoom",
    }, given, {
      font: Object.assign({ family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 11 : 12.5, color: role("ink") }, given.font),
    });
    for (const key of Object.keys(layout)) {
      if (/^xaxis\d*$/.test(key)) layout[key] = axis(layout[key], role, 8);
      if (/^yaxis\d*$/.test(key)) layout[key] = axis(layout[key], role, 6);
    }
    return layout;
  }

  const figureOf = new Map();
  const drawn = new Set();
  let waiting = [];

  function draw(canvas) {
    const role = roles();
    const figure = figureOf.get(canvas)();
    Plotly.react(canvas, coloured(figure.traces, role), layoutOf(figure, canvas.clientHeight, role), Object.assign({}, config, figure.config));
    drawn.add(canvas);
  }
  const once = (canvas) => { if (figureOf.has(canvas) && !drawn.has(canvas)) draw(canvas); };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) once(entry.target);
  }, { rootMargin: "600px" });
  // Resize events of the window are not enough, because a scroll bar or a rotated phone changes the width too.
  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) if (drawn.has(entry.target)) Plotly.Plots.resize(entry.target);
  });

  // ``figure`` is a function that makes the canvas's traces and layout. It is called when the canvas becomes visible.
  function watch(canvas, figure) {
    figureOf.set(canvas, figure);
    watcher.observe(canvas);
    sizes.observe(canvas);
  }

  function drop(canvas) {
    watcher.unobserve(canvas);
    sizes.unobserve(canvas);
    if (drawn.delete(canvas)) Plotly.purge(canvas);
    figureOf.delete(canvas);
  }

  // Also draw the invisible figures, one by one, so that the page remains responsive.
  function drawAll() {
    waiting = Array.from(figureOf.keys());
    (function next() {
      const canvas = waiting.shift();
      if (!canvas) return;
      once(canvas);
      setTimeout(next, 0);
    })();
  }

  const redraw = (canvas) => { if (drawn.has(canvas)) draw(canvas); };
  const again = () => drawn.forEach(draw);
  dark.addEventListener("change", again);
  narrow.addEventListener("change", again);
  window.addEventListener("beforeprint", () => {
    root.dataset.printing = "1";
    document.querySelectorAll("details").forEach((one) => { one.dataset.was = one.open ? "1" : ""; one.open = true; });
    for (const canvas of figureOf.keys()) draw(canvas);
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.printing;
    document.querySelectorAll("details").forEach((one) => { one.open = one.dataset.was === "1"; });
    again();
  });
  return { watch, drop, redraw, drawAll };
})();
