// The comparison's tables, the page's controls, and its start.
'use strict';

// --- comparison

/** The options that are not the same in all runs. */
function differing() {
  const names = [...new Set(data.runs.flatMap((run) => run.options.map((row) => row[0])))];
  return names.filter((name) => new Set(data.runs.map((run) => option(run, name))).size > 1);
}

/** What makes a run better than others: the higher, the better. */
function score(results) {
  const same = new Set(data.runs.map((run) => run.results.by)).size === 1;
  if (!same || !results.by) return results.best ?? -1;
  return measureOf(results.by).lower_is_better ? -(results.value ?? Infinity) :
                                                 results.value ?? -1;
}

/** The value by which the best evaluation was chosen, if that is not accuracy. */
function bestBy({by, value}) {
  return !by ? '–' : `${by} ${showOf(by)(value)}`;
}

/** The run with its line in the charts, and a box that hides it there. */
function runCell(run, i) {
  const onchange = (e) => {
    view.hidden[e.target.checked ? 'delete' : 'add'](run);
    refreshCharts();
  };
  const look = line(lookOf(run, i));
  const parts = run.label.split(/(?<=,)/).flatMap((part) => [part, make('wbr')]);
  return make(
      'label', {class: 'swatch'}, make('input', {type: 'checkbox', checked: true, onchange}), look,
      make('span', {class: 'run'}, parts));
}

function results() {
  const best = Math.max(...data.runs.map((run) => score(run.results))), other = differing();
  const steps = (r) => known(r.step) ? `${short(r.step)} / ${short(r.steps)}` : '–';
  const all = [
    ['status', false, (r) => r.status || '–'], ['best accuracy', true, (r) => percent(r.best)],
    ['best by', true, (r) => bestBy(r)], ['at step', true, (r) => short(r.best_step)],
    ['last accuracy', true, (r) => percent(r.last)], ['last loss', true, (r) => short(r.loss)],
    ['test accuracy', true, (r) => percent(r.test)],
    ['training loss', true, (r) => short(r.train_loss)], ['steps', true, steps],
    ['time', true, (r) => duration(r.seconds)], ['samples/s', true, (r) => short(r.images_per_s)],
    ...other.filter((name) => name !== 'steps')
        .map((name) => [`--${name}`, true, (_, run) => option(run, name) || '–'])
  ];
  const shown = all.filter(([, , text]) => data.runs.some((run) => text(run.results, run) !== '–'));
  const rows = data.runs.map(
      (run, i) => [runCell(run, i), ...shown.map(([, , text]) => text(run.results, run))]);
  const classes = data.runs.map((run) => score(run.results) === best ? 'best' : '');
  const running = data.runs.filter((run) => run.results.status === 'running');
  section(
      'results', 'Results',
      running.length === 0 ? null :
                             reason(`Still running when this page was written: ${
                                 running.map((run) => run.label).join(', ')}.`),
      make(
          'div', {class: 'card'}, table([['run', false], ...shown], rows, {sorts: true, classes})));
}

function differences() {
  const names = [...new Set(data.runs.flatMap((run) => run.options.map((row) => row[0])))];
  const other = new Set(differing());
  names.sort((a, b) => other.has(b) - other.has(a));
  const rows =
      names.map((name) => [`--${name}`, ...data.runs.map((run) => option(run, name) || '–')]);
  const heads = [['option', false], ...data.runs.map((run) => [run.label, false])];
  section(
      'options', 'Options', reason(`Options that differ: ${other.size}. A dot marks them.`),
      filtered(heads, rows, names.map((name) => other.has(name))));
}

// --- controls

function controls() {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const theme = () => {
    const chosen = settings.read('theme', 'auto');
    document.documentElement.dataset.theme =
        chosen === 'auto' ? (system.matches ? 'dark' : 'light') : chosen;
    byId('theme').textContent = `Theme: ${chosen}`;
  };
  const next = {auto: 'light', light: 'dark', dark: 'auto'};
  byId('theme').addEventListener('click', () => {
    settings.write('theme', next[settings.read('theme', 'auto')]);
    theme();
  });
  system.addEventListener('change', theme);
  theme();
  view.smoothing = Number(settings.read('smoothing', 0.6));
  byId('smoothing').value = view.smoothing;
  byId('smoothing').addEventListener('input', (e) => {
    view.smoothing = Number(e.target.value);
    settings.write('smoothing', view.smoothing);
    refreshCharts();
  });
  view.axis = settings.read('axis', 'step');
  byId('axis').value = view.axis;
  byId('axis').addEventListener('change', (e) => {
    view.axis = e.target.value;
    settings.write('axis', view.axis);
    view.cursor = null;
    setRange(null);
  });
  byId('zoom').addEventListener('click', () => setRange(null));
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width !== width) {
      width = entry.contentRect.width;
      refreshCharts();
    }
  }).observe(byId('main'));
  const links = [...byId('contents').children];
  const mark = () => {
    const passed = links.filter(
              (link) =>
                  document.querySelector(link.getAttribute('href')).getBoundingClientRect().top <
                  160),
          now = passed[passed.length - 1] || links[0];
    for (const link of links)
      link === now ? link.setAttribute('aria-current', 'true') :
                     link.removeAttribute('aria-current');
  };
  addEventListener('scroll', mark, {passive: true});
  mark();
}

/** Whether the run trained when this page was written. No run writes compare.html. */
const isRunning = () => !comparison && data.runs[0].results.status === 'running';
/** Seconds since the last sign of life of the run. */
const age = () => Date.now() / 1000 - data.runs[0].last_sign;
/** Whether several pages are missing. */
const isSilent = () => age() > 60 + 3 * (data.next || 10);

/** Says how far the run is, and how old that is. */
function news() {
  const run = data.runs[0], r = run.results;
  if (!isRunning() || !known(run.last_sign)) return;
  const steps = `Step ${short(r.step)} of ${short(r.steps)}`, left = secondsLeft(run),
        when = new Date(1000 * run.last_sign).toLocaleString('sv');
  const tell = () => {
    byId('live').textContent = isSilent() ?
        `${steps}. No news for ${duration(age())}, since ${
            when}. The run was killed or suspended, or it cannot write this page.` :
        `${steps}${known(left) ? `, about ${duration(left)} left` : ''}. Written ${
            Math.max(0, Math.round(age()))} s ago, at ${when}.`;
    if (!isSilent()) return;
    byId('status').textContent = 'no news';
    byId('status').className = 'pill silent';
  };
  byId('live').hidden = false;
  tell();
  setInterval(tell, 1000);
}

/**
 * Loads the page again while its run trains: the sooner, the newer the page is. Keeps the place on
 * the page.
 */
function refresh() {
  const key = `lockstep-scroll-${location.pathname}`, store = (name, value) => {
    try {
      sessionStorage.setItem(name, value);
    } catch { /* it begins at the top */
    }
  };
  try {
    const top = sessionStorage.getItem(key);
    if (top !== null) {
      sessionStorage.removeItem(key);
      history.scrollRestoration = 'manual';
      scrollTo(0, Number(top));
    }
  } catch { /* the same */
  }
  if (!isRunning()) return;
  const button = byId('refresh');
  let paused = settings.read('paused', 'false') === 'true';
  const show = () => {
    button.textContent = paused ? 'Refresh: off' : 'Refresh: on';
    button.setAttribute('aria-pressed', String(!paused));
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    paused = !paused;
    settings.write('paused', paused);
    show();
  });
  show();
  const due = performance.now() + 1000 * Math.min(60, Math.max(5, age() / 10));
  setInterval(() => {
    if (paused || document.hidden || performance.now() < due || view.cursor !== null ||
        String(getSelection()) !== '')
      return;
    store(key, String(scrollY));
    location.reload();
  }, 1000);
}

function main() {
  for (const run of data.runs)
    run.began = Math.min(
        ...Object.values(run.rows).flatMap((rows) => rows.columns.time || []).filter(known));
  findGroups();
  heading();
  const sections = comparison ? [results, means, curves, differences] : [
    overview, curves, classes, precisionRecallCurves, mistakes, stepTime, memory, machine, commands,
    options
  ];
  for (const draw of sections) {
    try {
      draw();
    } catch (error) {  // the data are damaged; the other sections remain
      byId('main').append(
          reason(`A section is missing, because its data are damaged: ${error.message}.`));
      setTimeout(() => {
        throw error;
      });
    }
  }
  byId('footer').textContent = `Written by Lockstep ${data.version} at ${
      new Date(1000 * data.written).toLocaleString('sv')}. This page needs no network.`;
  controls();
  news();
  refreshCharts();
  refresh();
}

main();
