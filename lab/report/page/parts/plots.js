(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  document.querySelectorAll(".canvas[data-plot]").forEach((canvas) => Drawing.watch(canvas, () => figures[Number(canvas.dataset.plot)]));
  // If the page has its own scripts, their charts are drawn first, and these plots when they become visible.
  if (!document.getElementById("data")) Drawing.drawAll();
})();
