// A sweep's figures as columns, queries on them, and the menus with which a reader chooses the queries.
const Sweep = (function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const count = data.iops.length;
  const NOWHERE = -1, ALL = "all";
  const axisOf = new Map(data.axes.map((axis) => [axis.name, axis]));
  const over = (list, base) => (row) => (list[row] == null || !base[row] ? null : list[row] / base[row]);
  const timesMegabytes = (list) => (row) => list[row] * data.megabytes[row] / data.iops[row];
  const quantities = [
    { name: "iops", title: "IOPS", unit: "I/Os per second", of: (row) => data.iops[row], low: (row) => data.low[row], high: (row) => data.high[row] },
    { name: "megabytes", title: "Throughput", unit: "MB/s", of: (row) => data.megabytes[row], low: timesMegabytes(data.low), high: timesMegabytes(data.high) },
    { name: "mean", title: "Mean latency", unit: "ms", of: (row) => data.mean[row] },
    { name: "p99", title: "99th percentile of latency", unit: "ms", of: (row) => data.p99[row] },
    { name: "ratio", title: "Measured ÷ theory", unit: "× theory", of: over(data.iops, data.predicted), low: over(data.low, data.predicted), high: over(data.high, data.predicted) },
  ].filter((one) => { for (let row = 0; row < count; row++) if (one.of(row) != null) return true; return false; });

  // Plotly interprets some HTML in its texts, but text from other computers must remain text.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function short(value) {
    if (value == null) return "–";
    const size = Math.abs(value);
    if (size >= 1e6) return String(Number((value / 1e6).toPrecision(3))) + "M";
    if (size >= 1e4) return String(Number((value / 1e3).toPrecision(3))) + "k";
    return size >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  }

  // A row without a value on an axis appears at every value, for example RAID 1 at every chunk size.
  const isAt = (axis, code, row) => axis.codes[row] === code || axis.codes[row] === NOWHERE;

  // The rows of a direction at ``places``, a list of [axis, code], where code may be ALL.
  function rowsAt(direction, places) {
    const wanted = places.filter((place) => place[1] !== ALL);
    const found = [];
    for (let row = 0; row < count; row++) {
      if (data.direction.codes[row] === direction && wanted.every((place) => isAt(place[0], place[1], row))) found.push(row);
    }
    return found;
  }

  // The rows at each value of an axis.
  function apart(axis, rows) {
    const found = axis.labels.map(() => []);
    for (const row of rows) {
      if (axis.codes[row] === NOWHERE) found.forEach((list) => list.push(row));
      else found[axis.codes[row]].push(row);
    }
    return found;
  }

  // One value for several rows is their geometric mean. A single row also has its interval.
  function valueOf(quantity, rows) {
    const kept = rows.filter((row) => quantity.of(row) != null);
    if (!kept.length) return null;
    if (kept.length === 1) {
      const row = kept[0];
      return { value: quantity.of(row), low: quantity.low && quantity.low(row), high: quantity.high && quantity.high(row), repeats: data.repeats[row], cells: 1 };
    }
    const mean = Math.exp(kept.reduce((sum, row) => sum + Math.log(quantity.of(row)), 0) / kept.length);
    return { value: mean, low: null, high: null, repeats: 0, cells: kept.length };
  }

  function words(quantity, found) {
    const says = short(found.value) + " " + quantity.unit;
    if (found.cells > 1) return says + ", geometric mean of " + found.cells + " cells";
    return found.repeats > 1 && found.low != null ? says + " [" + short(found.low) + " – " + short(found.high) + "], n = " + found.repeats : says;
  }

  // The first value of an axis that has at least 90 % of the most frequent value's rows, because some rows may be
  // missing.
  function usual(axis, direction) {
    const counts = axis.labels.map(() => 0);
    for (let row = 0; row < count; row++) {
      if (data.direction.codes[row] === direction && axis.codes[row] !== NOWHERE) counts[axis.codes[row]]++;
    }
    return counts.findIndex((each) => each >= 0.9 * Math.max(...counts));
  }

  function element(tag, text, attributes) {
    const made = document.createElement(tag);
    if (text != null) made.textContent = text;
    for (const name of Object.keys(attributes || {})) made.setAttribute(name, attributes[name]);
    return made;
  }

  // A menu whose ``options`` are [value, text]. Values are compared as text, because elements store text.
  function menu(parent, label, options, chosen, onchange) {
    const outer = element("label", label), select = element("select");
    for (const [value, text] of options) select.append(element("option", text, { value: value }));
    select.value = String(chosen);
    select.addEventListener("change", () => onchange(select.value));
    outer.append(select);
    parent.append(outer);
    return select;
  }

  const decoded = (value) => (value === ALL ? ALL : Number(value));

  // Menus for direction, quantity, the axes in their roles and the values of all other axes. ``state`` holds the
  // choices.
  function choices(form, state, roles, changed) {
    form.addEventListener("submit", (event) => event.preventDefault());
    const unused = () => data.axes.filter((axis) => !roles.some((role) => state[role.name] === axis.name));

    function settle() {
      for (const axis of unused()) if (!(axis.name in state.fixed)) state.fixed[axis.name] = usual(axis, state.direction);
    }

    // A workload that only writes has no reads, so the choices that were not just made are changed.
    function repair(wasDirection) {
      const places = unused().map((axis) => [axis, state.fixed[axis.name]]);
      if (rowsAt(state.direction, places).length) return;
      if (wasDirection) for (const axis of unused()) state.fixed[axis.name] = usual(axis, state.direction);
      else for (let code = 0; code < data.direction.labels.length; code++) {
        if (rowsAt(code, places).length) { state.direction = code; return; }
      }
    }

    function take(role, name) {
      const other = roles.find((one) => one !== role && name && state[one.name] === name);
      if (other) state[other.name] = other.isNeeded || state[role.name] ? state[role.name] : "";
      state[role.name] = name;
    }

    function build(focused) {
      settle();
      form.replaceChildren();
      const group = (label) => { const made = element("div", null, { class: "group", role: "group", "aria-label": label }); form.append(made); return made; };
      const act = (what, wasDirection) => (value) => {
        const label = document.activeElement && document.activeElement.parentElement.firstChild.textContent;
        what(value);
        settle();
        repair(wasDirection);
        build(label);
        changed();
      };
      const first = group("Figure");
      menu(first, "figure", quantities.map((one) => [one.name, one.title]), state.quantity, act((value) => { state.quantity = value; }));
      if (data.direction.labels.length > 1) {
        menu(first, "direction", data.direction.labels.map((label, code) => [code, label + "s"]), state.direction, act((value) => { state.direction = Number(value); }, true));
      }
      if ("scale" in state) menu(first, "scale", [["", "automatic"], ["linear", "linear"], ["log", "logarithmic"]], state.scale, act((value) => { state.scale = value; }));
      const second = group("Axes");
      for (const role of roles) {
        const options = data.axes.map((axis) => [axis.name, axis.title]);
        if (!role.isNeeded) options.unshift(["", "none"]);
        menu(second, role.title, options, state[role.name], act((value) => take(role, value)));
      }
      if (unused().length) {
        const third = group("Values of the other axes");
        for (const axis of unused()) {
          const options = [...axis.labels.map((label, code) => [code, label]), [ALL, "all: geometric mean"]];
          menu(third, axis.title, options, state.fixed[axis.name], act((value) => { state.fixed[axis.name] = decoded(value); }));
        }
      }
      for (const label of focused ? form.querySelectorAll("label") : []) if (label.firstChild.textContent === focused) label.querySelector("select").focus();
    }
    build("");
    return {
      build: () => { settle(); repair(false); build(""); },
      places: () => unused().map((axis) => [axis, state.fixed[axis.name]]),
    };
  }

  function placesText(places) {
    return places.map(([axis, code]) => (code === ALL ? "all values of " + axis.title : axis.words[code])).join(", ");
  }

  const headOf = (quantity, direction) => quantity.title + " of " + data.direction.labels[direction] + "s" + (quantity.name === "iops" || quantity.name === "ratio" ? "" : ", " + quantity.unit);

  return { data, count, NOWHERE, ALL, axisOf, quantities, plain, short, rowsAt, apart, valueOf, words, element, menu, choices, placesText, headOf };
})();
