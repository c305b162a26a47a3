"use strict";
(() => {
  const SVG = "http" + "://www.w3.org/2000/svg";

  // The closed forms of theory/speedup.py; sums of positive terms, so that no digits are lost for k up to 64.
  const geometricSum = (a, k) => {
    let sum = 0;
    for (let i = 0; i < k; i++) sum = sum * a + 1;
    return sum;
  };
  const fSync = (a, c, k) => geometricSum(a, k) / (1 + c * (k - 1));
  const fAsync = (a, c, k) => {
    if (c < 1 / k) {
      const last = Math.pow(a, k);
      let partial = 0, power = 1;
      for (let i = 1; i < k; i++) { power *= a; partial += power - last; }
      return geometricSum(a, k) / (1 + c * partial);
    }
    return 1 / (a > 0.5 ? c + (1 - c) * (1 - a) : 1 - a * (1 - c));
  };

  // Between the simulated points every axis is linear; outside there is no value.
  const interpolated = (axes, values, at) => {
    let offset = 0, size = 1, corners = [[0, 1]];
    for (let d = axes.length - 1; d >= 0; d--) {
      const axis = axes[d], x = at[d], n = axis.length;
      if (!(x >= axis[0] - 1e-12 && x <= axis[n - 1] + 1e-12)) return null;
      let i = 0;
      while (i < n - 2 && x > axis[i + 1]) i++;
      const share = n > 1 ? Math.min(Math.max((x - axis[i]) / (axis[i + 1] - axis[i]), 0), 1) : 0;
      const next = [];
      for (const [place, weight] of corners) {
        if (share < 1) next.push([place + i * size, weight * (1 - share)]);
        if (share > 0) next.push([place + (i + 1) * size, weight * share]);
      }
      corners = next;
      size *= n;
    }
    for (const [place, weight] of corners) offset += weight * values[place];
    return offset;
  };

  const make = (tag, attributes, text) => {
    const found = document.createElementNS(SVG, tag);
    for (const name in attributes) found.setAttribute(name, attributes[name]);
    if (text !== undefined) found.textContent = text;
    return found;
  };
  const html = (tag, className, text) => {
    const found = document.createElement(tag);
    if (className) found.className = className;
    if (text !== undefined) found.textContent = text;
    return found;
  };

  // What is pointed at, or tapped, tells what it is.
  const tip = document.getElementById("tip");
  const point = (event) => {
    const at = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !at;
    if (!at) return;
    tip.textContent = at.getAttribute("data-tip");
    const box = at.getBoundingClientRect();
    const x = event.clientX === undefined ? box.left : event.clientX;
    const y = event.clientY === undefined ? box.top : event.clientY;
    tip.style.left = Math.max(8, Math.min(x + 12, window.innerWidth - tip.offsetWidth - 8)) + "px";
    const below = y + 16 + tip.offsetHeight < window.innerHeight;
    tip.style.top = (below ? y + 16 : Math.max(8, y - tip.offsetHeight - 10)) + "px";
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("focusin", point);
  document.addEventListener("focusout", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);

  const round = (low, high) => {
    const rough = (high - low) / 6, power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) found.push(i * step);
    return found;
  };
  const brief = (x) => String(parseFloat(x.toPrecision(4)));

  // Speedup by k1: closed forms as lines, simulations as points.
  const explore = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const now = {};
    const values = () => data.sliders.map((one) => (one.values ? one.values[now[one.name]] : now[one.name]));
    const told = (slider) => (slider.values ? slider.values[now[slider.name]] : now[slider.name]);
    const chart = make("svg", { viewBox: "0 0 640 340", class: "chart", role: "img", "aria-label": data.title });
    figure.querySelector(".scroll").append(chart);
    const legend = figure.querySelector(".legend"), result = figure.querySelector(".result");
    data.series.forEach((one, i) => legend.append(html("span", "key s" + i, one.title)));

    const simulated = (series, k1) => {
      const grid = data.grid;
      const place = grid.k1.indexOf(k1);
      return place < 0 ? null : interpolated(grid.axes, series.values[place], grid.scaled(values()));
    };
    data.grid.scaled = (at) => at.map((x, d) => (data.grid.log[d] ? Math.log2(x) : x));
    data.grid.axes = data.grid.axes.map((axis, d) => (data.grid.log[d] ? axis.map(Math.log2) : axis));

    const draw = () => {
      const [alpha, c1] = values();
      const forms = { sync: fSync, async: fAsync };
      const lines = data.series.map((one) => ({
        one,
        closed: Array.from({ length: data.k1_most }, (_, i) => forms[one.form](alpha, c1, i + 1)),
        points: data.grid.k1.map((k) => [k, simulated(one, k)]).filter(([, y]) => y !== null),
      }));
      const every = lines.flatMap((line) => [...line.closed, ...line.points.map(([, y]) => y), 1]);
      const top = Math.max(...every) * 1.08;
      const x = (k) => 52 + (572 * (k - 1)) / (data.k1_most - 1), y = (v) => 290 - (270 * v) / top;
      chart.replaceChildren();
      for (const v of round(0, top)) {
        chart.append(make("line", { x1: 52, x2: 624, y1: y(v), y2: y(v), class: "grid" }));
        chart.append(make("text", { x: 44, y: y(v) + 4, "text-anchor": "end" }, brief(v)));
      }
      for (let k = 1; k <= data.k1_most; k++) chart.append(make("text", { x: x(k), y: 310, "text-anchor": "middle" }, k));
      chart.append(make("text", { x: 338, y: 332, "text-anchor": "middle" }, "k1, target steps in flight"));
      chart.append(make("text", { x: 12, y: 12, "text-anchor": "start" }, "speedup"));
      chart.append(make("line", { x1: 52, x2: 624, y1: y(1), y2: y(1), class: "reference" }));
      let best = null;
      lines.forEach(({ one, closed, points }, i) => {
        const path = closed.map((v, j) => x(j + 1).toFixed(1) + "," + y(v).toFixed(1)).join(" ");
        chart.append(make("polyline", { points: path, class: "line closed s" + i }));
        closed.forEach((v, j) => chart.append(make("circle", { cx: x(j + 1), cy: y(v), r: 3, class: "mark s" + i,
          "data-tip": one.title + ", closed form, k1 = " + (j + 1) + ": " + v.toFixed(3) })));
        points.forEach(([k, v]) => {
          chart.append(make("rect", { x: x(k) - 5, y: y(v) - 5, width: 10, height: 10, class: "point s" + i, tabindex: 0,
            "data-tip": one.title + ", simulated, k1 = " + k + ": " + v.toFixed(2) }));
          if (best === null || v > best.v) best = { v, k, one, form: closed[k - 1] };
        });
      });
      result.textContent = best === null
        ? "No simulation here: a slider stands outside of what was simulated."
        : best.v < 1
          ? "Here neither is faster than plain decoding: the best simulated is " + best.v.toFixed(2) + "."
          : "Simulated best: " + best.one.title + " with k1 = " + best.k + ", " + best.v.toFixed(2)
            + " times plain decoding; the closed form says " + best.form.toFixed(2) + ".";
    };

    const box = figure.querySelector(".sliders");
    for (const slider of data.sliders) {
      now[slider.name] = slider.values ? slider.values.indexOf(slider.start) : slider.start;
      const label = html("label", "", slider.title), shown = html("output", "", brief(told(slider)));
      const input = html("input");
      Object.assign(input, slider.values
        ? { type: "range", min: 0, max: slider.values.length - 1, step: 1 }
        : { type: "range", min: slider.low, max: slider.high, step: slider.step });
      input.value = now[slider.name];
      input.name = slider.name;
      input.addEventListener("input", () => {
        now[slider.name] = Number(input.value);
        shown.textContent = brief(told(slider));
        draw();
      });
      label.append(shown, input);
      box.append(label);
    }
    const back = html("button", "", "as planned");
    back.type = "button";
    back.addEventListener("click", () => {
      for (const slider of data.sliders) {
        const input = box.querySelector('input[name="' + slider.name + '"]');
        now[slider.name] = slider.values ? slider.values.indexOf(slider.start) : slider.start;
        input.value = now[slider.name];
        input.previousElementSibling.textContent = brief(told(slider));
      }
      draw();
    });
    box.append(back);
    draw();
  };
  document.querySelectorAll(".explorer").forEach(explore);

  // A timeline: buttons, the wheel with Ctrl, and dragging move the stretch of time that fills the width.
  const zoom = (figure) => {
    const svg = figure.querySelector("svg.timeline"), axis = svg.querySelector(".time");
    const end = Number(svg.dataset.end), width = Number(svg.dataset.width), left = Number(svg.dataset.left);
    let from = 0, length = Number(svg.dataset.shown);
    const blocks = [...svg.querySelectorAll("g[data-a]")].map((g) => ({
      a: Number(g.dataset.a), b: Number(g.dataset.b), g, rect: g.querySelector("rect"), text: g.querySelector("text"),
    }));
    const draw = () => {
      length = Math.min(Math.max(length, end / 2000), end);
      from = Math.min(Math.max(from, 0), end - length);
      const scale = width / length;
      for (const { a, b, g, rect, text } of blocks) {
        const seen = b >= from && a <= from + length;
        g.classList.toggle("hidden", !seen);
        if (!seen) continue;
        const x = (a - from) * scale, wide = Math.max((b - a) * scale, 1.5);
        rect.setAttribute("x", x);
        rect.setAttribute("width", wide);
        if (!text) continue;
        const low = Math.max(x, 0), high = Math.min(x + wide, width);
        text.setAttribute("x", (low + high) / 2);
        text.classList.toggle("hidden", high - low < 8 * text.textContent.length + 2);
      }
      axis.replaceChildren();
      const y = Number(axis.dataset.y);
      for (const t of round(from, from + length)) {
        axis.append(make("text", { x: left + (t - from) * scale, y, "text-anchor": "middle" }, brief(t) + " s"));
      }
    };
    const around = (factor, share) => {
      const at = from + length * share;
      length = Math.min(Math.max(length / factor, end / 2000), end);
      from = at - length * share;
      draw();
    };
    figure.querySelectorAll("button").forEach((button) => button.addEventListener("click", () => {
      const { zoom: factor, move } = button.dataset;
      if (move) from += Number(move) * length;
      else if (Number(factor) === 0) { from = 0; length = end; }
      else { around(Number(factor), 0.5); return; }
      draw();
    }));
    const share = (event) => {
      const box = svg.getBoundingClientRect();
      return (((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width - left) / width;
    };
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      around(event.deltaY < 0 ? 1.25 : 0.8, Math.min(Math.max(share(event), 0), 1));
    }, { passive: false });
    let held = null;
    svg.addEventListener("pointerdown", (event) => { held = { at: share(event), from }; });
    svg.addEventListener("pointermove", (event) => {
      if (held === null || event.pointerType === "touch") return;
      from = held.from - (share(event) - held.at) * length;
      draw();
    });
    window.addEventListener("pointerup", () => { held = null; });
    draw();
  };
  document.querySelectorAll("figure.zooms").forEach(zoom);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));

  window.specplanReport = { fSync, fAsync, interpolated };
})();
