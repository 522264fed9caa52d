(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  document.querySelectorAll(".canvas[data-plot]").forEach((canvas) => Drawing.watch(canvas, () => figures[Number(canvas.dataset.plot)]));
  // Where the page has scripts of its own, their charts come first, and these when they come into sight.
  if (!document.getElementById("data")) Drawing.drawAll();
})();
