// Sections about time, memory, ranks, commands and options of a run.
'use strict';

/** Parts of a whole as a bar and a table. parts: [name, size, bound]. */
function stack(parts, format, heads) {
  const total = parts.reduce((sum, part) => sum + part[1], 0);
  const dot = (i) => make('i', {class: 'dot', style: `background:var(--c${i % 8})`});
  const bar = make(
      'div', {class: 'stack', 'aria-hidden': 'true'},
      parts.map(
          ([name, size], i) => make(
              'i',
              {title: name, style: `width:${100 * size / total}%;background:var(--c${i % 8})`})));
  const rows = parts.map(
      ([name, size, ...more], i) =>
          [make('span', {class: 'swatch'}, dot(i), name), format(size),
           `${(100 * size / total).toFixed(1)} %`, ...more]);
  rows.push(['total', format(total), '', ...parts[0].slice(2).map(() => '')]);
  return make('div', {class: 'card'}, bar, table(heads, rows));
}

function stepTime() {
  const run = data.runs[0], parts = run.parts;
  if (!parts || !known(parts.seconds_per_batch))
    return section('time', 'Time of a step', reason('This run has no training rows.'));
  const known_parts = [
    ['forward pass', 'forward', '–'], ['backward pass', 'backward', '–'],
    ['optimizer', 'optimizer', '–'],
    ['exposed communication', 'exposed_communication', '0 (all of it overlapped)'],
    ['waiting for data', 'loader_wait', '0 (all of it loaded ahead)']
  ];
  const rows =
      known_parts.filter(([, name]) => known(parts[name]))
          .map(([label, name, bound]) => [label, parts[name] * parts.seconds_per_batch, bound]);
  const gflop = at(run, 'summary', 'compute', 'gflop_per_step_and_rank');
  const both = (parts.forward + parts.backward) * parts.seconds_per_batch;
  const rest = parts.seconds_per_batch - rows.reduce((sum, row) => sum + row[1], 0);
  if (rest > 0) rows.push(['other', rest, '–']);
  const notes = [];
  if (!known(parts.forward)) notes.push('This run did not log the passes and the optimizer.');
  if (known(gflop) && both > 0)
    notes.push(`Forward and backward pass compute ${short(gflop)} GFLOP per rank and step: ${
        short(gflop / both)} GFLOP/s.`);
  section(
      'time', 'Time of a step',
      make(
          'p', {class: 'reason'},
          `Mean of all logged steps after the first, on rank 0. ${notes.join(' ')}`),
      stack(
          rows, (s) => `${short(1000 * s)} ms`,
          [['part', false], ['time', true], ['share', true], ['lower bound', true]]));
}

function memory() {
  const summary = data.runs[0].summary,
        parts = Object.entries(at(summary, 'memory') || {}).filter(([, bytes]) => bytes > 0);
  if (parts.length === 0)
    return section('memory', 'Memory', reason('summary.json of this run has no memory plan.'));
  section(
      'memory', 'Memory', make('p', {class: 'reason'}, 'Plan of a rank, as of rank 0.'),
      stack(parts, mebibytes, [['part', false], ['size', true], ['share', true]]));
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return make(
      'table', {class: 'wide'},
      make(
          'tbody', {},
          shown.map(
              ([name, value]) => make(
                  'tr', {}, make('th', {scope: 'row'}, name),
                  make('td', {class: 'long'}, String(value))))));
}

function machine() {
  const run = data.runs[0], s = run.summary || {}, start = run.start || {},
        buckets = at(s, 'communication', 'buckets');
  const pairs = [
    ['ranks', s.ranks ?? start.ranks], ['hosts', s.hosts],
    ['threads per rank', s.threads ?? start.threads], ['host of rank 0', s.host ?? start.host],
    ['device', s.device], ['global batch', s.global_batch ?? start.global_batch],
    ['shards', s.shards ?? start.shards], ['reducer', at(s, 'communication', 'reducer')],
    ['progress', at(s, 'communication', 'progress')],
    [
      'buckets',
      buckets ? `${buckets.count} of ${mebibytes(buckets.smallest_bytes)} to ${
                    mebibytes(buckets.largest_bytes)}` :
                null
    ],
    ['order of sums', at(s, 'communication', 'order')],
    ['parameters', known(at(s, 'compute', 'parameters')) ? short(s.compute.parameters) : null],
    ['data', s.data], ['libraries', s.libraries], ['seed', s.seed ?? start.seed],
    ['Lockstep', s.version ?? start.version], ['run id', s.id ?? start.id]
  ];
  const places = (s.placement || []).map((text) => make('li', {}, text));
  const late = run.stragglers.map(
      (row) =>
          [String(row.rank), short(row.reports), `${short(1000 * row.seconds)} ms`,
           short(row.last_step)]);
  const right = make(
      'div', {class: 'card'}, make('h3', {}, 'Stragglers'),
      late.length > 0 ? table(
                            [
                              ['rank', true], ['reports', true], ['mean delay of a step', true],
                              ['last at step', true]
                            ],
                            late, {sorts: true}) :
                        reason('No rank delayed the others by a tenth of the time.'),
      places.length > 0 ?
          [make('h3', {}, 'Places of the ranks'), make('ul', {class: 'scroller'}, places)] :
          reason('summary.json does not name the places of the ranks.'));
  const changes = (s.changes || []).map((row) => [row.at, row.change, short(row.step),
                                                  short(row.ranks), `${row.seconds.toFixed(1)} s`]);
  const changed = changes.length === 0 ?
      null :
      make(
          'div', {class: 'card'}, make('h3', {}, 'Changes of the ranks'),
          table(
              [
                ['time', false], ['change', false], ['training goes on from step', true],
                ['ranks', true], ['after', true]
              ],
              changes));
  section(
      'machine', 'Ranks and hosts',
      make('div', {class: 'columns'}, make('div', {class: 'card'}, facts(pairs)), right), changed);
}

function command(title, text) {
  const copy = make(
      'button', {
        type: 'button',
        onclick: async () => {
          try {
            await navigator.clipboard.writeText(text);
            copy.textContent = 'Copied';
          } catch {
            getSelection().selectAllChildren(code);
          }
          setTimeout(() => {
            copy.textContent = 'Copy';
          }, 1500);
        }
      },
      'Copy');
  const code = make('pre', {}, text);
  return [make('h3', {}, title), make('div', {class: 'command'}, code, copy)];
}

function commands() {
  const s = data.runs[0].summary || {};
  if (!s.command)
    return section('commands', 'Commands', reason('summary.json of this run has no command.'));
  section(
      'commands', 'Commands',
      make(
          'div', {class: 'card'}, command('This run', s.command),
          s.commands ?
              [
                command('Resume it', s.commands.resume),
                command('Repeat it as a new run', s.commands.repeat)
              ] :
              reason('The same command resumes it.')));
}

/** A table of options with a filter. rows as table() takes them; the first cell is the name. */
function filtered(heads, rows, changed) {
  const body = table(heads, rows, {classes: changed.map((is) => is ? 'changed' : '')}),
        lines = [...body.tBodies[0].rows];
  const search = make('input', {
    type: 'search',
    placeholder: 'Filter',
    'aria-label': 'Filter of the options',
    oninput: show
  });
  const only = make(
      'button', {
        type: 'button',
        'aria-pressed': 'false',
        onclick: () => {
          only.setAttribute('aria-pressed', String(only.getAttribute('aria-pressed') !== 'true'));
          show();
        }
      },
      'Only changed ones');
  function show() {
    const few = only.getAttribute('aria-pressed') === 'true';
    lines.forEach((line, i) => {
      line.hidden = (few && !changed[i]) ||
          !line.textContent.toLowerCase().includes(search.value.toLowerCase());
    });
  }
  return make(
      'div', {class: 'card'},
      make('div', {class: 'tools'}, search, changed.some(Boolean) ? only : null),
      make('div', {class: 'scroller'}, body));
}

function options() {
  const rows = data.runs[0].options;
  if (rows.length === 0)
    return section('options', 'Options', reason('This run has no config.toml.'));
  const changed = rows.map((row) => row[2]);
  section(
      'options', 'Options',
      reason(
          changed.some(Boolean) ?
              `${changed.filter(Boolean).length} of ${
                  rows.length} options differ from their default; a dot marks them.` :
              'This run did not record which options differ from their default.'),
      filtered(
          [['option', false], ['value', false]],
          rows.map(([name, value]) => [`--${name}`, String(value)]), changed));
}
