// The comparison's tables, the page's controls, and its start.
'use strict';

// --- comparison

function results() {
  const runs = data.runs,
        best = Math.max(...runs.map((run) => known(run.results.best) ? run.results.best : -1));
  const rows = runs.map((run, i) => {
    const r = run.results, id = `show-${i}`;
    const box = make('input', {
      type: 'checkbox',
      id,
      checked: true,
      onchange: (e) => {
        view.hidden[e.target.checked ? 'delete' : 'add'](run);
        refreshCharts();
      }
    });
    return [
      make(
          'span', {class: 'swatch'}, box, line({color: i % 8, dash: DASHES[Math.floor(i / 8) % 4]}),
          make(
              'label',
              {for: id
              },
              run.label)),
      r.status || '–', percent(r.best), known(r.best_step) ? short(r.best_step) : '–',
      percent(r.last), short(r.loss), percent(r.test), short(r.train_loss),
      known(r.step) ? `${short(r.step)} / ${short(r.steps)}` : '–', duration(r.seconds),
      short(r.images_per_s)
    ];
  });
  const heads = [
    ['run', false], ['status', false], ['best accuracy', true], ['at step', true],
    ['last accuracy', true], ['last loss', true], ['test accuracy', true], ['training loss', true],
    ['steps', true], ['time', true], ['images/s', true]
  ];
  section(
      'results', 'Results',
      make('div', {class: 'card scroll'}, table(heads, rows, {
             sorts: true,
             classes: runs.map((run) => run.results.best === best ? 'best' : '')
           })));
}

function differences() {
  const names = [...new Set(data.runs.flatMap((run) => run.options.map((row) => row[0])))];
  const rows = names.map((name) => [name, ...data.runs.map((run) => option(run, name) || '–')]);
  const changed = rows.map((row) => new Set(row.slice(1)).size > 1),
        order = rows.map((_, i) => i).sort((a, b) => changed[b] - changed[a]);
  const heads = [['option', false], ...data.runs.map((run) => [run.label, false])];
  section(
      'options', 'Options',
      reason(`${changed.filter(Boolean).length} options differ; a dot marks them.`),
      filtered(
          heads, order.map((i) => [`--${rows[i][0]}`, ...rows[i].slice(1)]),
          order.map((i) => changed[i])));
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
  if (!data.runs.some((run) => run.results.status === 'running')) return;
  const age = () => Date.now() / 1000 - data.written, button = byId('refresh');
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
  const due = Date.now() + 1000 * Math.min(60, Math.max(5, age() / 10));
  setInterval(() => {
    if (paused || document.hidden || Date.now() < due || view.cursor !== null ||
        String(getSelection()) !== '')
      return;
    store(key, String(scrollY));
    location.reload();
  }, 1000);
  if (age() > 900)
    byId('main').prepend(make(
        'p', {class: 'card notice'},
        `The run has not written this page for ${
            duration(age())}. It may evaluate rarely, or it was killed.`));
}

function main() {
  for (const run of data.runs)
    run.began = Math.min(
        ...Object.values(run.rows).flatMap((rows) => rows.columns.time || []).filter(known));
  heading();
  if (comparison) {
    results();
    curves();
    differences();
  } else {
    overview();
    curves();
    classes();
    mistakes();
    stepTime();
    memory();
    machine();
    commands();
    options();
  }
  byId('footer').textContent = `Written by Lockstep ${data.version} at ${
      new Date(1000 * data.written).toLocaleString()}. This page needs no network.`;
  controls();
  refreshCharts();
  refresh();
}

main();
