// Line charts in SVG. They share the x axis: its unit, the zoom, and the cursor.
'use strict';

/** Round numbers from low to high, about `count`. */
function ticks(low, high, count) {
  const span = high - low || 1, power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].find((factor) => span / (factor * power) <= count) * power;
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    result.push(i * step);
  return result;
}

function logTicks(low, high) {
  const result = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
    for (const factor of Math.log10(high / low) < 2 ? [1, 2, 5] : [1]) {
      const value = factor * 10 ** e;
      if (value >= low * 0.999 && value <= high * 1.001) result.push(value);
    }
  }
  return result.length < 2 ? [low, high] : result;
}

/**
 * The exponential moving average that W&B and TensorBoard draw, without the bias of its beginning.
 */
function smoothed(points, weight) {
  let mean = 0, total = 0;
  return points.map(([x, y]) => {
    mean = weight * mean + (1 - weight) * y;
    total = weight * total + (1 - weight);
    return [x, mean / total];
  });
}

const view = {
  axis: 'step',
  smoothing: 0.6,
  range: null,
  domain: [0, 1],
  cursor: null,
  hidden: new Set(),
  charts: []
};

/** Draws all charts, over the same range of x. */
function refreshCharts() {
  view.domain = [Infinity, -Infinity];
  for (const chart of view.charts) {
    for (const series of chart.shownSeries()) {
      for (const [x] of chart.points(series))
        view.domain = [Math.min(view.domain[0], x), Math.max(view.domain[1], x)];
    }
  }
  for (const chart of view.charts) chart.draw();
}

function setCursor(x, source) {
  view.cursor = x;
  for (const chart of view.charts) chart.point(chart === source);
}

function setRange(range) {
  view.range = range;
  document.getElementById('zoom').hidden = range === null;
  refreshCharts();
}

/**
 * A chart. spec: {id, title, format, from0, series: [{label, color, dash, smooth, marks, run,
 * columns, name, factor}]}. A series shows column `name` times `factor` over the column of the x
 * axis.
 */
class Chart {
  constructor(spec) {
    this.spec = spec;
    this.log = false;
    this.svg = make('svg', {
      tabindex: 0,
      role: 'img',
      onpointermove: (e) => this.move(e),
      onpointerleave: () => setCursor(null),
      onpointerdown: (e) => this.press(e),
      onpointerup: (e) => this.release(e),
      ondblclick: () => setRange(null),
      onkeydown: (e) => this.key(e),
      onblur: () => setCursor(null)
    });
    this.legend = make('div', {class: 'legend'});
    this.tip = make('div', {class: 'tip', hidden: true});
    this.toggle = make(
        'button', {
          type: 'button',
          'aria-pressed': String(this.log),
          title: 'Logarithmic y axis',
          onclick: () => {
            this.log = !this.log;
            this.toggle.setAttribute('aria-pressed', String(this.log));
            refreshCharts();
          }
        },
        'log');
    this.element = make(
        'div', {class: 'card chart', id: `chart-${spec.id}`},
        make('div', {class: 'chart-head'}, make('h3', {}, spec.title), this.toggle), this.svg,
        this.legend, this.tip);
    view.charts.push(this);
  }

  shownSeries() {
    const shown = this.spec.series.filter((series) => !view.hidden.has(series.run));
    return view.grouped ? grouped(shown) : shown;
  }

  /**
   * The points [x, y] of a series that are numbers, by the unit of the x axis. Those of a group
   * also have the deviation.
   */
  points(series) {
    if (series.members) return meanPoints(series.members.map((one) => this.points(one)));
    const xs = axisOf(series.columns, series.run), ys = series.columns[series.name] || [],
          result = [];
    for (let i = 0; i < ys.length; ++i)
      if (known(xs[i]) && known(ys[i])) result.push([xs[i], ys[i] * (series.factor || 1)]);
    return result;
  }

  draw() {
    const width = Math.max(this.svg.clientWidth || 420, 160), height = 236;
    this.box = {left: 52, right: width - 10, top: 10, bottom: height - 40};
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.lines =
        this.shownSeries()
            .map((series) => {
              const raw = this.points(series);
              const smooth = series.smooth && view.smoothing > 0 && raw.length > 2;
              const means = series.means && !series.members ?
                  this.points({...series, columns: series.means}) :
                  raw;
              return {series, raw, shown: smooth ? smoothed(means, view.smoothing) : raw, smooth};
            })
            .filter((line) => line.raw.length > 0);
    const inRange = ([x]) => view.range === null || (x >= view.range[0] && x <= view.range[1]);
    const all = this.lines.flatMap((line) => line.shown.filter(inRange));
    const raws = this.lines.flatMap((line) => line.raw.filter(inRange));
    this.svg.replaceChildren();
    this.scale(all, raws);
    this.drawAxes();
    this.drawChanges();
    for (const line of this.lines) this.drawLine(line);
    for (const series of this.shownSeries()) this.drawNaNs(series);
    this.overlay = make('g');
    this.svg.append(this.overlay);
    this.describe();
    this.point(false);
  }

  scale(points, raws) {
    const span = (values) => values.reduce(
        ([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
    let [x0, x1] = view.range || view.domain;
    if (!(x1 > x0)) [x0, x1] = known(x0) ? [x0 - 0.5, x0 + 0.5] : [0, 1];
    let [y0, y1] = span(points.map(([, y]) => y));
    // Raw points may lie outside, but not the middle 98 % of them.
    const values = raws.flatMap(([, y, spread = 0]) => this.log ? [y] : [y - spread, y + spread]);
    const sorted = values.sort((a, b) => a - b), cut = Math.floor(sorted.length / 100);
    if (sorted.length > 0) {
      y0 = Math.min(y0, sorted[cut]);
      y1 = Math.max(y1, sorted[sorted.length - 1 - cut]);
    }
    if (!known(y0)) [y0, y1] = [0, 1];
    this.isLog = this.log && sorted.length > 0 && sorted[0] > 0;
    if (this.isLog) {
      if (y0 === y1) [y0, y1] = [y0 / 2, y1 * 2];
    } else {
      if (this.spec.from0) y0 = Math.min(0, y0);
      const pad = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
      if (!(this.spec.from0 && y0 === 0)) y0 -= pad;
      y1 += pad;
      if (this.spec.most !== undefined) y1 = Math.min(y1, this.spec.most * 1.02);
    }
    const {left, right, top, bottom} = this.box, l = this.isLog ? Math.log : (v) => v;
    this.x = (value) => left + (value - x0) / (x1 - x0) * (right - left);
    this.xAt = (pixel) => x0 + (pixel - left) / (right - left) * (x1 - x0);
    this.y = (value) => bottom - (l(value) - l(y0)) / (l(y1) - l(y0)) * (bottom - top);
    this.extent = {x0, x1, y0, y1};
  }

  drawAxes() {
    const {left, right, top, bottom} = this.box, {x0, x1, y0, y1} = this.extent,
                             group = make('g', {'aria-hidden': 'true'});
    for (const value of this.isLog ? logTicks(y0, y1) : ticks(y0, y1, 5)) {
      const y = this.y(value);
      group.append(
          make('line', {class: 'gridline', x1: left, x2: right, y1: y, y2: y}),
          make('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, this.format(value)));
    }
    for (const value of ticks(x0, x1, Math.max(2, Math.floor((right - left) / 60)))) {
      const x = this.x(value), text = view.axis === 'time' ? duration(value) : short(value);
      group.append(make(
          'text', {x, y: bottom + 16, 'text-anchor': x > right - 16 ? 'end' : 'middle'}, text));
    }
    group.append(
        make('line', {class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom}),
        make(
            'text',
            {class: 'title', x: (left + right) / 2, y: bottom + 31, 'text-anchor': 'middle'},
            view.axis));
    const clip = make('rect', {x: left, y: top - 4, width: right - left, height: bottom - top + 6});
    const path = document.createElementNS(SVG, 'clipPath');
    path.id = `clip-${this.spec.id}`;
    path.append(clip);
    this.svg.append(path, group);
  }

  /** Lines where ranks were lost or joined. */
  drawChanges() {
    const {x0, x1} = this.extent, drawn = new Set();
    for (const {series} of this.lines) {
      if (drawn.has(series.run)) continue;
      drawn.add(series.run);
      const steps = series.columns.step || [], xs = axisOf(series.columns, series.run);
      for (const change of at(series.run, 'summary', 'changes') || []) {
        const x = xs[steps.findIndex((step) => step > change.step)];
        if (!known(x) || x < x0 || x > x1) continue;
        const place = {x1: this.x(x), x2: this.x(x), y1: this.box.top, y2: this.box.bottom};
        this.svg.append(make('line', {class: 'change', ...place}));
      }
    }
  }

  drawLine({series, raw, shown, smooth}) {
    const clip = `url(#clip-${this.spec.id})`, color = `var(--c${series.color})`;
    const positive = (points) => this.isLog ? points.filter(([, y]) => y > 0) : points;
    const path = (points) =>
        positive(points)
            .map(([x, y], i) => `${i ? 'L' : 'M'}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`)
            .join('');
    const stroke = {fill: 'none', stroke: color, 'stroke-linejoin': 'round', 'clip-path': clip};
    if (series.members) {
      const spread = raw.map(([x, , deviation]) => [x, deviation]);
      const band = bandOf(shown, smooth ? smoothed(spread, view.smoothing) : spread);
      this.svg.append(make('path', {d: path(band), class: 'band', fill: color, 'clip-path': clip}));
    } else if (smooth) {
      this.svg.append(make('path', {...stroke, d: path(raw), class: 'raw', 'stroke-width': 1}));
    }
    this.svg.append(make('path', {
      ...stroke,
      d: path(shown),
      class: 'line',
      'stroke-width': 1.8,
      'stroke-dasharray': series.dash
    }));
    if (!series.marks && shown.length > 1) return;
    const {x0, x1} = this.extent;
    const marks = positive(shown.length > 60 ? shown.slice(-1) : shown);
    for (const [x, y] of marks.filter(([x]) => x >= x0 && x <= x1))  // whole, also at the edges
      this.svg.append(make(
          'circle',
          {cx: this.x(x), cy: this.y(y), r: series.marks === 'big' ? 5 : 2.6, fill: color}));
  }

  /** Marks the rows of evaluations whose value is NaN: the data has null for it. */
  drawNaNs(series) {
    if (!series.marks) return;
    const xs = axisOf(series.columns, series.run), ys = series.columns[series.name] || [],
          {x0, x1} = this.extent;
    for (let i = 0; i < ys.length; ++i) {
      if (ys[i] !== null || !known(xs[i]) || xs[i] < x0 || xs[i] > x1) continue;
      this.svg.append(make(
          'text', {
            class: 'nan',
            x: this.x(xs[i]),
            y: this.box.top + 8,
            'text-anchor': 'middle',
            style: `fill:var(--c${series.color})`
          },
          'NaN'));
    }
  }

  format(value) {
    return this.spec.format ? this.spec.format(value) : short(value);
  }

  describe() {
    const lasts = this.lines.map(({series, raw}) => [series, raw[raw.length - 1][1]]);
    this.legend.replaceChildren(...lasts.map(
        ([series, value]) =>
            make('span', {}, line(series), series.label, make('b', {}, this.format(value)))));
    this.svg.setAttribute(
        'aria-label',
        `${this.spec.title} over ${view.axis}. ` +
            lasts.map(([series, value]) => `${series.label}: last ${this.format(value)}.`)
                .join(' ') +
            ' Arrow keys move the cursor.');
  }

  /** Shows the cursor: in all charts a line, in the chart that has it the values too. */
  point(own) {
    if (!this.overlay) return;
    this.overlay.replaceChildren();
    this.tip.hidden = true;
    const {x0, x1} = this.extent, at = view.cursor;
    if (at === null || at < x0 || at > x1 || this.lines.length === 0) return;
    const x = this.x(at),
          near = (points) =>
              points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
    this.overlay.append(
        make('line', {class: 'cursor', x1: x, x2: x, y1: this.box.top, y2: this.box.bottom}));
    const rows = [];
    for (const {series, raw, shown, smooth} of this.lines) {
      const point = near(shown);
      if (this.isLog && point[1] <= 0) continue;
      this.overlay.append(make(
          'circle',
          {cx: this.x(point[0]), cy: this.y(point[1]), r: 4, fill: `var(--c${series.color})`}));
      const exact = near(raw)[1];
      rows.push(make(
          'div', {}, line(series), series.label,
          make('b', {}, this.format(exact) + (smooth ? ` (${this.format(point[1])})` : ''))));
    }
    if (!own) return;
    const label = view.axis === 'time' ? duration(at) : short(at);
    this.tip.replaceChildren(make('div', {}, `${view.axis} ${label}`), ...rows);
    this.tip.hidden = false;
    const box = this.svg.getBoundingClientRect(), card = this.element.getBoundingClientRect();
    const left = box.left - card.left + x * box.width / this.svg.viewBox.baseVal.width;
    const over = left > card.width / 2;
    this.tip.style.left = over ? 'auto' : `${left + 14}px`;
    this.tip.style.right = over ? `${card.width - left + 14}px` : 'auto';
    this.tip.style.top = `${box.top - card.top + 8}px`;
  }

  /** The value of x under the pointer. */
  under(event) {
    const box = this.svg.getBoundingClientRect(), {left, right} = this.box;
    const pixel = (event.clientX - box.left) * this.svg.viewBox.baseVal.width / box.width;
    return this.xAt(Math.min(right, Math.max(left, pixel)));
  }

  /** The x of a point nearest to `at`. */
  nearest(at) {
    const xs = this.lines.flatMap(({shown}) => shown.map(([x]) => x));
    return xs.length === 0 ? null :
                             xs.reduce((a, b) => Math.abs(b - at) < Math.abs(a - at) ? b : a);
  }

  move(event) {
    if (!this.extent) return;
    const at = this.under(event);
    setCursor(this.nearest(at), this);
    if (this.from === undefined) return;
    const [a, b] = [this.from, at].sort((one, other) => one - other).map(this.x);
    this.overlay.append(make('rect', {
      class: 'brush',
      x: a,
      width: b - a,
      y: this.box.top,
      height: this.box.bottom - this.box.top
    }));
  }

  press(event) {
    if (event.pointerType !== 'mouse' || event.button !== 0) return;
    this.svg.setPointerCapture(event.pointerId);
    this.from = this.under(event);
  }

  release(event) {
    if (this.from === undefined) return;
    const range = [this.from, this.under(event)].sort((a, b) => a - b);
    this.from = undefined;
    if (this.x(range[1]) - this.x(range[0]) > 8) setRange(range);
  }

  key(event) {
    const xs =
        [...new Set(this.lines.flatMap(({shown}) => shown.map(([x]) => x)))].sort((a, b) => a - b);
    if (xs.length === 0) return;
    const now = view.cursor === null ? xs.length : xs.indexOf(this.nearest(view.cursor));
    const jump = event.shiftKey ? 10 : 1;
    const to =
        {ArrowLeft: now - jump, ArrowRight: now + jump, Home: 0, End: xs.length - 1}[event.key];
    if (event.key === 'Escape') {
      setCursor(null);
      setRange(null);
    }
    if (to === undefined) return;
    event.preventDefault();
    setCursor(xs[Math.min(xs.length - 1, Math.max(0, to))], this);
  }
}

/** The column of the x axis. Time counts from the first row of the run. */
function axisOf(columns, run) {
  if (view.axis !== 'time') return columns[view.axis] || [];
  const begin = run.began;
  return (columns.time || []).map((time) => known(time) ? time - begin : null);
}
