// The table of all cells, in which only visible rows are elements.
(function () {
  const { data, count, axisOf, NOWHERE, short, element, menu } = Sweep;
  const place = document.getElementById("cells-window");
  if (!place) return;
  const ROW = 30, SPARE = 8;
  const table = document.getElementById("cells-table"), head = table.tHead, body = table.tBodies[0];
  const says = document.getElementById("cells-says"), form = document.getElementById("cells-choices");
  const off = new Set(data.is_off);
  const ratio = (row) => (data.predicted[row] ? data.iops[row] / data.predicted[row] : null);
  const coded = (title, column) => ({ title: title, key: (row) => column.codes[row], text: (row) => column.labels[column.codes[row]], width: widest(column.labels, title) });
  const number = (title, list, width) => ({ title: title, key: (row) => list[row], text: (row) => short(list[row]), width: width || Math.max(8, title.length + 4), isNumber: true });
  const widest = (labels, title) => Math.min(34, Math.max(title.length + 4, ...labels.map((label) => label.length + 3)));
  const columns = [
    { title: "cell", key: (row) => data.cell[row], text: (row) => data.cell[row], width: 15 },
    ...data.axes.map((axis) => ({
      title: axis.title, key: (row) => axis.codes[row], text: (row) => (axis.codes[row] === NOWHERE ? "–" : axis.labels[axis.codes[row]]),
      width: widest(axis.labels, axis.title), isNumber: Boolean(axis.numbers),
    })),
    ...(axisOf.has("workload") ? [] : [coded("workload", data.workload)]),
    coded("direction", data.direction),
    number("IOPS", data.iops),
    { title: "interval", key: (row) => (data.high[row] - data.low[row]) / data.iops[row], width: 20,
      text: (row) => (data.repeats[row] > 1 ? "[" + short(data.low[row]) + " – " + short(data.high[row]) + "]" : "one repeat") },
    number("MB/s", data.megabytes), number("mean, ms", data.mean, 12), number("p99, ms", data.p99, 11), number("theory", data.predicted, 10),
    { title: "÷ theory", key: ratio, text: (row) => (ratio(row) == null ? "–" : (off.has(row) ? "⚠ " : "") + ratio(row).toFixed(2)), width: 11, isNumber: true, isOff: (row) => off.has(row) },
    number("n", data.repeats, 6), coded("computer", data.computer), coded("stamps", data.stamps),
  ];
  const filters = new Map();
  let words = [], onlyOff = false, sorted = null, isDown = false, order = [], first = -1, last = -1;
  const texts = new Array(count);
  const textOf = (row) => texts[row] || (texts[row] = columns.map((column) => column.text(row)).join(" ").toLowerCase());

  function choose() {
    order = [];
    for (let row = 0; row < count; row++) {
      if (onlyOff && !off.has(row)) continue;
      let isWanted = true;
      for (const [codes, code] of filters) if (codes[row] !== code) { isWanted = false; break; }
      if (isWanted && words.length) isWanted = words.every((word) => textOf(row).includes(word));
      if (isWanted) order.push(row);
    }
    if (sorted) {
      const sign = isDown ? -1 : 1;
      const keyed = order.map((row) => [sorted.key(row), row]);
      // Rows without a figure are last in both directions. Rows with equal figures keep the order of the sweep.
      keyed.sort((a, b) => (a[0] == null) - (b[0] == null) || (a[0] < b[0] ? -sign : a[0] > b[0] ? sign : a[1] - b[1]));
      order = keyed.map((one) => one[1]);
    }
    says.textContent = order.length.toLocaleString("en") + " of " + count.toLocaleString("en") + " figures" + (sorted ? ", by " + sorted.title + (isDown ? ", greatest first" : "") : "") + ". ⚠: far from theory.";
    table.setAttribute("aria-rowcount", String(order.length + 1));
    first = -1;
    place.scrollTop = 0;
    show();
  }

  function gap(height) {
    const row = element("tr", null, { class: "gap", "aria-hidden": "true" }), cell = element("td", null, { colspan: columns.length });
    cell.style.height = height + "px";
    row.append(cell);
    return row;
  }

  function show() {
    const from = Math.max(0, Math.floor(place.scrollTop / ROW) - SPARE);
    const to = Math.min(order.length, from + Math.ceil(Math.max(place.clientHeight, 0.7 * window.innerHeight) / ROW) + 2 * SPARE);
    if (from === first && to === last) return;
    first = from;
    last = to;
    const made = [gap(from * ROW)];
    for (let index = from; index < to; index++) {
      const row = order[index], line = element("tr", null, { "aria-rowindex": index + 2 });
      columns.forEach((column, number) => {
        const text = column.text(row), cell = element(number ? "td" : "th", text, number ? {} : { scope: "row" });
        if (text.length > column.width - 2) cell.title = text;
        const kinds = [column.isNumber && "number", column.isOff && column.isOff(row) && "off"].filter(Boolean);
        if (kinds.length) cell.className = kinds.join(" ");
        line.append(cell);
      });
      made.push(line);
    }
    made.push(gap((order.length - to) * ROW));
    body.replaceChildren(...made);
  }

  function heads() {
    const widths = element("colgroup"), line = element("tr");
    let whole = 0;
    for (const column of columns) {
      const col = element("col");
      col.style.width = column.width + "ch";
      whole += column.width;
      widths.append(col);
      const cell = element("th", null, { scope: "col" }), button = element("button", column.title, { type: "button" });
      if (column.isNumber) cell.className = "number";
      button.addEventListener("click", () => {
        // The first click sorts the largest figures first, and words from A on. The second click reverses the order.
        isDown = sorted === column ? !isDown : Boolean(column.isNumber);
        sorted = column;
        for (const other of line.children) { other.removeAttribute("aria-sort"); other.firstChild.textContent = other.dataset.title; }
        cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        button.textContent = column.title + (isDown ? " ▼" : " ▲");
        choose();
      });
      cell.dataset.title = column.title;
      cell.append(button);
      line.append(cell);
    }
    table.style.tableLayout = "fixed";
    table.style.width = "max(100%, " + whole + "ch)";
    table.insertBefore(widths, head);
    head.append(line);
  }

  function fields() {
    form.addEventListener("submit", (event) => event.preventDefault());
    const label = element("label", "search"), search = element("input", null, { type: "search", placeholder: "words in any column", autocomplete: "off" });
    search.addEventListener("input", () => { words = search.value.toLowerCase().split(/\s+/).filter(Boolean); choose(); });
    label.append(search);
    form.append(label);
    const lists = data.axes.map((axis) => [axis.title, axis.labels, axis.codes]);
    if (data.direction.labels.length > 1) lists.push(["direction", data.direction.labels, data.direction.codes]);
    if (data.computer.labels.length > 1) lists.push(["computer", data.computer.labels, data.computer.codes]);
    for (const [title, labels, codes] of lists) {
      menu(form, title, [["", "all"], ...labels.map((text, code) => [code, text])], "", (value) => {
        if (value === "") filters.delete(codes);
        else filters.set(codes, Number(value));
        choose();
      });
    }
    if (off.size) {
      const check = element("label", null, { class: "check" }), box = element("input", null, { type: "checkbox" });
      box.addEventListener("change", () => { onlyOff = box.checked; choose(); });
      check.append(box, "only far from theory");
      form.append(check);
    }
  }

  heads();
  fields();
  choose();
  let isAsked = false;
  place.addEventListener("scroll", () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; show(); });
  }, { passive: true });
  window.addEventListener("resize", show);
})();
