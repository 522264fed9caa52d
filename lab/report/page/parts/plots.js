(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  document.querySelectorAll(".canvas[data-plot]").forEach((canvas) => Drawing.watch(canvas, () => figures[Number(canvas.dataset.plot)]));
  Drawing.drawAll();
})();
