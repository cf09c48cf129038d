// Runs that repeat one experiment, as mean and standard deviation.

const REPEATED = ['seed', 'split-seed', 'fold'];

/** Gives runs that differ in nothing else the same group, a number. Counts those of each group. */
function findGroups() {
  const others = differing().filter((name) => !REPEATED.includes(name)), found = new Map();
  for (const run of data.runs) {
    const key = JSON.stringify(others.map((name) => option(run, name)));
    if (!found.has(key)) {
      const values = others.map((name) => `${name}=${option(run, name) || '–'}`);
      found.set(key, {number: found.size, runs: [], values: values.join(',')});
    }
    run.group = found.get(key);
    run.group.runs.push(run);
  }
  view.groups = [...found.values()];
  view.hasGroups = comparison && view.groups.length < data.runs.length;
  view.grouped = view.hasGroups;
}

const nameOf = (group, count) => `${group.values || 'mean'} (${count} runs)`;

/** The colour and the dashes of a run's lines. */
function lookOf(run, number) {
  if (!view.hasGroups) return {color: number % 8, dash: DASHES[Math.floor(number / 8) % 4]};
  return {color: run.group.number % 8, dash: DASHES[run.group.runs.indexOf(run) % 4]};
}

/** The series, with one for those of each group. */
function grouped(all) {
  const found = new Map();
  for (const series of all) {
    const key = `${series.run.group.number} ${series.part}`;
    found.set(key, [...(found.get(key) || []), series]);
  }
  return [...found.values()].map((members) => members.length === 1 ? members[0] : {
    ...members[0],
    members,
    dash: DASHES[members[0].part % 4],
    label:
        members[0].label.replace(members[0].run.label, nameOf(members[0].run.group, members.length))
  });
}

/** The value of the points [x, y] at x, between the nearest two. */
function valueAt(points, x) {
  const next = points.findIndex(([other]) => other >= x), [x1, y1] = points[next];
  if (x1 === x || next === 0) return y1;
  const [x0, y0] = points[next - 1];
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

/** Mean and standard deviation of numbers. */
function meanOf(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return [mean, values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0];
}

/** The points [x, mean, deviation] of several curves, where all of them have values. */
function meanPoints(curves) {
  const some = curves.filter((points) => points.length > 0);
  if (some.length === 0) return [];
  const begin = Math.max(...some.map((points) => points[0][0])),
        end = Math.min(...some.map((points) => points[points.length - 1][0]));
  return some[0]
      .filter(([x]) => x >= begin && x <= end)
      .map(([x]) => [x, ...meanOf(some.map((points) => valueAt(points, x)))]);
}

/** The lines of the band around a mean: those above it, then those below it, which are positive. */
function bandOf(shown, spread) {
  const above = shown.map(([x, y], i) => [x, y + spread[i][1]]),
        below = shown.map(([x, y], i) => [x, Math.max(y - spread[i][1], y * 1e-9)]);
  return [...above, ...below.reverse()];
}

/** The results of each group, the best first. */
function means() {
  if (!view.hasGroups) return;
  const text = (group, name, show) => {
    const values = group.runs.map((run) => run.results[name]).filter(known);
    if (values.length === 0) return '–';
    const [mean, deviation] = meanOf(values);
    return values.length === 1 ? show(mean) : `${show(mean)} ± ${show(deviation)}`;
  };
  const best = (group) => {
    const found = group.runs.filter((run) => known(run.results.best));
    return found.length === 0 ? -Infinity : meanOf(found.map((run) => score(run.results)))[0];
  };
  const {by} = data.runs[0].results;
  const more = by && data.runs.every((run) => run.results.by === by) ?
      [[`best ${by}`, 'value', showOf(by)]] :
      [];
  const shown = [
    ...more, ['best accuracy', 'best', percent], ['test accuracy', 'test', percent],
    ['last loss', 'loss', short]
  ];
  const rows = [...view.groups]
                   .sort((a, b) => best(b) - best(a))
                   .map(
                       (group) =>
                           [group.values || 'all', String(group.runs.length),
                            ...shown.map(([, name, show]) => text(group, name, show))]);
  const heads = [['experiment', false], ['runs', true], ...shown.map(([title]) => [title, true])];
  section(
      'means', 'Means',
      reason(
          'Mean and standard deviation of the runs that differ only in --seed, --split-seed or --fold.'),
      make('div', {class: 'card'}, table(heads, rows, {sorts: true})));
}

/** A box that shows each run instead of means. */
function groupSwitch() {
  if (!view.hasGroups) return null;
  const onchange = (e) => {
    view.grouped = e.target.checked;
    refreshCharts();
  };
  return make(
      'label', {class: 'swatch', id: 'grouped'},
      make('input', {type: 'checkbox', checked: true, onchange}),
      'Means of the runs that differ only in seed or fold, with bands of one standard deviation');
}
