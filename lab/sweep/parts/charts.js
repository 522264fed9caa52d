// Turns the reader's choices into small multiples and heat maps, as figures for Plotly.
(function () {
  const { data, ALL, axisOf, quantities, plain, short, rowsAt, apart, valueOf, words, element, choices, placesText, headOf } = Sweep;
  // The signs and strokes in the legend that correspond to Plotly's symbols and dashes.
  const SIGNS = ["●", "■", "◆", "▲", "✚", "✖", "★", "⬟", "⬢", "⧓"];
  const STROKES = ["", "6 4", "2 3", "7 3 2 3", "10 4"];
  const quantityOf = (name) => quantities.find((one) => one.name === name);
  const colour = (place) => "c" + (place % 8 + 1);

  // The position of a value is its binary logarithm if all are powers of 2, else its size. Words are evenly spaced.
  const position = (axis, code) => (!axis.numbers ? code : axis.doubles ? Math.log2(axis.numbers[code]) : axis.numbers[code]);

  function logTicks(low, high) {
    const steps = high / low < 30 ? [1, 2, 5] : high / low < 1000 ? [1, 3] : [1];
    const values = [];
    for (let power = -9; power < 12; power++) for (const step of steps) values.push(step * 10 ** power);
    return values;
  }

  function scaleOf(values, wish) {
    const low = Math.min(...values), high = Math.max(...values);
    if (wish === "log" || (!wish && high / low > 12)) {
      const ticks = logTicks(low, high), room = Math.max(0.04, 0.05 * Math.log10(high / low));
      return { type: "log", range: [Math.log10(low) - room, Math.log10(high) + room], tickvals: ticks, ticktext: ticks.map(short) };
    }
    return { type: "linear", range: [0, high * 1.07], nticks: 5, tickformat: high >= 1e4 ? "~s" : "" };
  }

  // The lines of one small chart, from the rows that belong to it.
  function linesOf(state, rows) {
    const x = axisOf.get(state.x), lines = axisOf.get(state.lines), quantity = quantityOf(state.quantity);
    const found = [];
    (lines ? apart(lines, rows) : [rows]).forEach((own, line) => {
      const points = [];
      apart(x, own).forEach((here, code) => {
        const value = valueOf(quantity, here);
        if (value) points.push(Object.assign(value, { code: code }));
      });
      if (points.length) found.push({ line: line, points: points });
    });
    return found;
  }

  function traceOf(state, drawn) {
    const x = axisOf.get(state.x), lines = axisOf.get(state.lines), quantity = quantityOf(state.quantity);
    const role = "@" + colour(drawn.line), name = lines ? plain(lines.words[drawn.line]) : "";
    return {
      type: "scatter", mode: "lines+markers", showlegend: false,
      x: drawn.points.map((point) => position(x, point.code)), y: drawn.points.map((point) => point.value),
      error_y: {
        type: "data", symmetric: false, color: role, thickness: 1.2, width: 3, visible: drawn.points.some((point) => point.repeats > 1 && point.low != null),
        array: drawn.points.map((point) => (point.high == null ? 0 : point.high - point.value)),
        arrayminus: drawn.points.map((point) => (point.low == null ? 0 : point.value - point.low)),
      },
      line: { color: role, width: 1.8, dash: data.dashes[drawn.line % data.dashes.length] },
      marker: { color: role, size: 6.5, symbol: data.symbols[drawn.line % data.symbols.length] },
      customdata: drawn.points.map((point) => (name ? "<b>" + name + "</b><br>" : "") + plain(x.words[point.code]) + "<br>" + plain(words(quantity, point))),
      hovertemplate: "%{customdata}<extra></extra>",
    };
  }

  function facetFigure(state, drawn, scale, isLeft) {
    const x = axisOf.get(state.x), codes = x.labels.map((_, code) => code);
    const every = Math.ceil(codes.length / (x.labels.some((label) => label.length > 5) ? 4 : 6));
    const ticks = codes.filter((code) => code % every === 0);
    const places = codes.map((code) => position(x, code));
    const room = 0.06 * (Math.max(...places) - Math.min(...places));
    const shapes = state.quantity === "ratio" ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: "@theory", width: 1.2, dash: "dot" } }] : [];
    return {
      traces: drawn.map((one) => traceOf(state, one)),
      layout: {
        margin: { l: isLeft ? 62 : 44, r: 6, t: 6, b: 36 }, shapes: shapes, font: { size: 11 }, hovermode: "closest",
        xaxis: { automargin: false, tickvals: ticks.map((code) => places[code]), ticktext: ticks.map((code) => plain(x.labels[code])), tickangle: 0,
          range: [Math.min(...places) - room, Math.max(...places) + room], title: { text: x.title, font: { size: 11 } }, zeroline: false, fixedrange: true },
        yaxis: Object.assign({ automargin: false, title: { text: isLeft ? quantityOf(state.quantity).unit : "", font: { size: 11 } }, zeroline: false, fixedrange: true }, scale),
      },
      config: { displayModeBar: false },
    };
  }

  function keyOf(list, state) {
    const lines = axisOf.get(state.lines);
    list.replaceChildren();
    if (!lines) return;
    const title = element("li", lines.title + ":");
    list.append(title);
    const namespace = "http://www.w3.org/2000/svg";
    lines.labels.forEach((label, place) => {
      const item = element("li"), drawing = document.createElementNS(namespace, "svg");
      const stroke = document.createElementNS(namespace, "line"), sign = document.createElementNS(namespace, "text");
      for (const [name, value] of [["width", 40], ["height", 16], ["aria-hidden", "true"]]) drawing.setAttribute(name, value);
      for (const [name, value] of [["x1", 1], ["x2", 39], ["y1", 8], ["y2", 8], ["stroke-width", 2], ["stroke-dasharray", STROKES[place % STROKES.length]]]) stroke.setAttribute(name, value);
      for (const [name, value] of [["x", 20], ["y", 12.5], ["text-anchor", "middle"], ["font-size", 12]]) sign.setAttribute(name, value);
      stroke.style.stroke = sign.style.fill = "var(--" + colour(place) + ")";
      sign.textContent = SIGNS[place % SIGNS.length];
      drawing.append(stroke, sign);
      item.append(drawing, element("span", label));
      list.append(item);
    });
  }

  function multiples() {
    const form = document.getElementById("multiples-choices");
    if (!form) return;
    const place = document.getElementById("multiples-facets"), says = document.getElementById("multiples-says");
    const roles = [{ name: "columns", title: "charts across" }, { name: "rows", title: "charts down" }, { name: "x", title: "along x", isNeeded: true }, { name: "lines", title: "lines" }];
    const state = Object.assign({ quantity: quantities[0].name, direction: 0, scale: "", fixed: {} }, data.multiples);
    const menus = choices(form, state, roles, show);

    function show() {
      place.querySelectorAll(".canvas").forEach(Drawing.drop);
      place.replaceChildren();
      keyOf(document.getElementById("multiples-key"), state);
      const across = axisOf.get(state.columns), down = axisOf.get(state.rows), columns = across ? across.labels.length : 1;
      place.style.gridTemplateColumns = "repeat(" + columns + ", minmax(" + (columns > 1 ? "11.5rem" : "0") + ", 1fr))";
      const fixed = menus.places(), rows = rowsAt(state.direction, fixed), facets = [], medians = [], ends = [];
      (down ? apart(down, rows) : [rows]).forEach((line, r) => {
        (across ? apart(across, line) : [line]).forEach((own, c) => {
          const drawn = linesOf(state, own);
          for (const one of drawn) {
            for (const point of one.points) {
              medians.push(point.value);
              ends.push(point.value, ...[point.low, point.high].filter((end) => end > 0));
            }
          }
          facets.push({ title: [down && down.words[r], across && across.words[c]].filter(Boolean).join(" · "), drawn: drawn, isLeft: c === 0 });
        });
      });
      const quantity = quantityOf(state.quantity);
      const where = placesText(fixed), head = headOf(quantity, state.direction) + (where ? "; " + where : "");
      if (!medians.length) { says.textContent = head + ": no cell."; return; }
      const scale = scaleOf(ends, state.scale);
      for (const facet of facets) {
        const box = element("div", null, { class: "facet" });
        if (facet.title) box.append(element("h4", facet.title));
        if (facet.drawn.length) {
          const canvas = element("div", null, { class: "canvas", role: "img", "aria-label": (facet.title || quantity.title) + ": " + textOf(facet.drawn) });
          box.append(canvas);
          Drawing.watch(canvas, () => facetFigure(state, facet.drawn, scale, facet.isLeft));
        } else box.append(element("p", "no cell"));
        place.append(box);
      }
      says.textContent = head + ". From " + short(Math.min(...medians)) + " to " + short(Math.max(...medians)) + "; " + (scale.type === "log" ? "logarithmic" : "linear") + " scale, the same in all charts.";
    }

    function textOf(drawn) {
      const x = axisOf.get(state.x), lines = axisOf.get(state.lines);
      return drawn.map((one) => (lines ? lines.words[one.line] + " " : "") + one.points.map((point) => x.labels[point.code] + ": " + short(point.value)).join(", ")).join("; ");
    }
    show();
  }

  function heat() {
    const form = document.getElementById("heat-choices");
    if (!form) return;
    const canvas = document.getElementById("heat-canvas"), says = document.getElementById("heat-says"), buttons = document.getElementById("heat-pairs");
    const roles = [{ name: "x", title: "across", isNeeded: true }, { name: "y", title: "down", isNeeded: true }];
    const state = { quantity: quantities[0].name, direction: 0, fixed: {}, x: data.pairs[0][0], y: data.pairs[0][1] };
    const menus = choices(form, state, roles, show);
    let figure = null;
    for (const [x, y] of data.pairs) {
      const button = element("button", axisOf.get(x).title + " × " + axisOf.get(y).title, { type: "button" });
      button.addEventListener("click", () => { state.x = x; state.y = y; menus.build(); show(); });
      buttons.append(button);
    }

    function show() {
      [...buttons.children].forEach((button, place) => {
        button.setAttribute("aria-pressed", String([state.x, state.y].sort().join() === [...data.pairs[place]].sort().join()));
      });
      const x = axisOf.get(state.x), y = axisOf.get(state.y), quantity = quantityOf(state.quantity), fixed = menus.places();
      const rows = rowsAt(state.direction, fixed), z = [], text = [], said = [], all = [];
      apart(y, rows).forEach((line, down) => {
        const found = apart(x, line).map((here) => valueOf(quantity, here));
        z.push(found.map((one) => (one ? Math.log10(one.value) : null)));
        text.push(found.map((one) => (one ? short(one.value) : "")));
        said.push(found.map((one, across) => plain(x.words[across]) + "<br>" + plain(y.words[down]) + "<br>" + (one ? plain(words(quantity, one)) : "no cell")));
        found.forEach((one, across) => { if (one) all.push({ value: one.value, at: x.words[across] + ", " + y.words[down] }); });
      });
      const where = placesText(fixed), head = headOf(quantity, state.direction);
      document.getElementById("heat-heading").textContent = head + (where ? ": " + where : "");
      canvas.style.height = Math.min(720, Math.max(260, 110 + 40 * y.labels.length)) + "px";
      figure = figureOf(x, y, quantity, z, text, said, all.map((one) => one.value));
      const missing = x.labels.length * y.labels.length - all.length;
      const ends = all.sort((a, b) => a.value - b.value);
      says.textContent = !ends.length ? "No cell." : "From " + short(ends[0].value) + " (" + ends[0].at + ") to " + short(ends[ends.length - 1].value) + " (" + ends[ends.length - 1].at + "); colours by the logarithm."
        + (missing ? " " + missing + (missing === 1 ? " place" : " places") + " without a cell." : "");
      canvas.setAttribute("aria-label", head + ". " + says.textContent);
      Drawing.redraw(canvas);
    }

    function figureOf(x, y, quantity, z, text, said, values) {
      const isRatio = quantity.name === "ratio", most = Math.max(0.05, ...values.map((value) => Math.abs(Math.log10(value))));
      const low = values.length ? Math.min(...values) : 1, high = values.length ? Math.max(...values) : 1;
      const ends = isRatio ? [10 ** -most, 10 ** most] : [low, high];
      const round = logTicks(ends[0], ends[1]).filter((tick) => tick >= ends[0] * 0.999 && tick <= ends[1] * 1.001);
      // A narrow span contains few round numbers, so its ends are the ticks.
      const ticks = isRatio ? [...new Set([ends[0], 1, ends[1]])] : round.length > 1 ? round : [...new Set([low, high])];
      const labels = (axis) => ({ type: "linear", tickvals: axis.labels.map((_, code) => code), ticktext: axis.labels.map(plain), title: { text: axis.title }, showgrid: false, zeroline: false });
      return {
        traces: [{
          type: "heatmap", z: z, customdata: said, text: text, texttemplate: x.labels.length <= 14 ? "%{text}" : "", hovertemplate: "%{customdata}<extra></extra>", xgap: 2, ygap: 2,
          hoverongaps: false,
          colorscale: isRatio ? [[0, "#b35806"], [0.5, "#f2f0eb"], [1, "#2166ac"]] : "Cividis",
          zmin: Math.log10(ends[0]), zmax: Math.log10(ends[1]) + (ends[0] === ends[1] ? 1e-6 : 0),
          colorbar: { thickness: 14, outlinewidth: 0, tickvals: ticks.map(Math.log10), ticktext: ticks.map(short), title: { text: quantity.unit, side: "right", font: { size: 12, color: "@quiet" } } },
        }],
        layout: { margin: { l: 10, r: 10, t: 30, b: 10 }, xaxis: labels(x), yaxis: Object.assign(labels(y), { range: [y.labels.length - 0.5, -0.5] }) },
      };
    }
    show();
    Drawing.watch(canvas, () => figure);
  }

  multiples();
  heat();
})();
