// Elements, numbers for people, tables and settings.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';

/** An element. Texts become text nodes, so that no value of a run is ever read as HTML. */
function make(name, attributes = {}, ...children) {
  const svg = ['svg', 'g', 'path', 'line', 'circle', 'rect', 'text'].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on'))
      element.addEventListener(key.slice(2), value);
    else if (value === true)
      element.setAttribute(key, '');
    else if (value !== null && value !== false && value !== undefined)
      element.setAttribute(key, value);
  }
  element.append(
      ...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const known = (value) => typeof value === 'number' && Number.isFinite(value);

/** A number for people: four digits, with separators. */
function short(value) {
  if (!known(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1e9) return value.toExponential(3);
  if (size >= 1000) return Math.round(value).toLocaleString('en-US');
  if (size !== 0 && size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

function duration(seconds) {
  if (!known(seconds)) return '–';
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600),
        minutes = Math.floor(whole / 60) % 60;
  const two = (n) => String(n).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` :
                     `${minutes}:${two(whole % 60)}`;
}

const byId = (id) => document.getElementById(id);
const percent = (value) => known(value) ? `${(100 * value).toFixed(2)} %` : '–';
const shortPercent = (value) => `${Number((100 * value).toPrecision(3))} %`;
const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/** A setting that survives reloads. Browsers may refuse storage to files. */
const settings = {
  read(name, otherwise) {
    try {
      return localStorage.getItem(`lockstep-${name}`) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  write(name, value) {
    try {
      localStorage.setItem(`lockstep-${name}`, value);
    } catch { /* kept for this view only */
    }
  },
};

/** A member of nested objects; undefined: one is missing. */
const at = (object, ...path) =>
    path.reduce((o, name) => o === null || o === undefined ? undefined : o[name], object);
const columns = (run, kind) => at(run, 'rows', kind, 'columns') || {};

function section(id, title, ...content) {
  byId('main').append(make(
      'section', {id, 'aria-labelledby': `${id}-title`}, make('h2', {id: `${id}-title`}, title),
      ...content));
  byId('contents').append(make('a', {href: `#${id}`}, title));
}

const reason = (text) => make('p', {class: 'reason'}, text);

/**
 * rows: arrays of texts or elements. heads: [text, is a number]. A click on a head sorts if
 * `sorts`.
 */
function table(heads, rows, {sorts = false, classes = [], wide = true} = {}) {
  const body = make('tbody');
  const lines = rows.map(
      (row, i) => make(
          'tr', {class: classes[i] || null},
          row.map((cell, j) => make('td', {class: heads[j][1] ? 'number' : 'long'}, cell))));
  body.append(...lines);
  const head = (cell, j) => make(
      'th', {scope: 'col', class: cell[1] ? 'number' : null},
      sorts ?
          make('button', {type: 'button', onclick: (e) => sort(j, e.target.parentNode)}, cell[0]) :
          cell[0]);
  function value(line, j) {
    const text = line.children[j].textContent;
    if (!heads[j][1]) return text;
    const parts = text.replace(/,/g, '').split(':').map(parseFloat);  // "1:05:09" is a time
    return parts.some(Number.isNaN) ? -Infinity : parts.reduce((sum, part) => 60 * sum + part);
  }
  function sort(j, th) {
    const down = th.getAttribute('aria-sort') !== 'descending';
    for (const other of th.parentNode.children) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    lines.sort((a, b) => {
      const x = value(a, j), y = value(b, j);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.append(...lines);
  }
  return make(
      'table', {class: wide ? 'wide' : null}, make('thead', {}, make('tr', {}, heads.map(head))),
      body);
}

function tile(label, value, note, extra) {
  return make(
      'div', {class: 'card tile', 'data-tile': label}, make('span', {}, label),
      make('b', {}, value), note ? make('span', {}, note) : null, extra || null);
}

/** A short piece of the line of a series. */
function line(series) {
  const svg = make(
      'svg',
      {width: 18, height: 8, 'aria-hidden': 'true', style: 'width:18px;height:8px;flex:none'});
  svg.append(make('path', {
    d: 'M0 4H18',
    stroke: `var(--c${series.color})`,
    'stroke-width': 2.5,
    'stroke-dasharray': series.dash,
    fill: 'none'
  }));
  return svg;
}
