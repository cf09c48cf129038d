// The sections of a page, from the data of one run (report) or of several (compare).
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const comparison = data.kind === 'compare';
const DASHES = [null, '7 3', '2 3', '9 3 2 3'];

/** The measure of this name (apps/evaluate/measures.h); empty: it is one of a later version. */
const measureOf = (name) => data.measures.find((measure) => measure.name === name) || {};
/** How to show its values. */
const showOf = (name) => measureOf(name).lower_is_better ? short : percent;

// --- heading

function heading() {
  const run = data.runs[0];
  if (comparison) {
    byId('name').textContent = `${data.runs.length} runs compared`;
    byId('status').hidden = true;
    return;
  }
  byId('name').textContent = run.name;
  const status = run.results.status;
  byId('status').textContent = status === 'complete' && reasonOf(run) ? 'ended early' : status;
  byId('status').hidden = status === '';
  byId('status').className = `pill ${status}`;
  const facts = [
    at(run, 'summary', 'program'), option(run, 'model'), option(run, 'dataset'),
    at(run, 'summary', 'device')
  ];
  byId('about').textContent = facts.filter(Boolean).join(' · ');
}

function option(run, name) {
  const found = run.options.find((row) => row[0] === name);
  return found ? String(found[1]).replace(/^"(.*)"$/s, '$1') : '';
}

/** Why the run failed, or ended before its last step; undefined: it did neither. */
const reasonOf = (run) => at(run, 'summary', 'reason');

/** The set that the run was evaluated on while it trained: "validation" or "test". */
function setOf(run) {
  const validates = option(run, 'validation') > 0 || option(run, 'fold') ||
      at(run, 'rows', 'test') || at(run, 'evaluation', 'set') === 'validation set';
  return validates ? 'validation' : 'test';
}

/** Seconds of training that are left, by the mean speed; NaN: not known. */
function secondsLeft(run) {
  const r = run.results;
  return r.images_per_s > 0 ?
      (r.steps - r.step) * at(run, 'summary', 'global_batch') / r.images_per_s :
      NaN;
}

function overview() {
  const run = data.runs[0], r = run.results, times = at(run, 'summary', 'times') || {};
  const set = `${setOf(run)} set`, step = (n) => known(n) ? `step ${short(n)}` : '';
  const share = r.status === 'complete' ? 1 : known(r.step) && r.steps > 0 ? r.step / r.steps : 0;
  const left = secondsLeft(run), why = reasonOf(run);
  // The page of a run that trains is younger than the last line of its log.
  const logged = (columns(run, 'train').step || []).at(-1);
  const running = isRunning() && !isSilent(),
        seen = (columns(run, 'train').epoch || []).filter(known).at(-1),
        epoch = seen > 0 && logged > 0 && known(r.step) ? seen * r.step / logged :
                                                          seen ?? at(run, 'summary', 'epoch');
  const exposed = at(run, 'parts', 'exposed_communication');
  const tested = at(run, 'summary', 'test', 'step') ?? r.step;
  const weights = known(tested) ? `weights of ${step(tested)}` : '';
  const count = at(run, 'summary', 'ranks'), begin = at(run, 'start', 'step');
  const ranks = !known(count) ?
      '' :
      `on ${count} rank${count === 1 ? '' : 's'}` + (begin > 0 ? `, since ${step(begin)}` : '');
  const tiles = [
    tile(
        r.by ? `Accuracy at best ${r.by}` : 'Best accuracy', percent(r.best),
        known(r.best) ? `${r.by ? bestBy(r) + ', ' : ''}${set}, ${step(r.best_step)}` :
            known(r.last) ? 'no evaluation has a loss' :
                            'no evaluation yet'),
    tile(
        'Last accuracy', percent(r.last),
        known(r.loss) ? `loss ${short(r.loss)}` :
            known(r.last) ? 'loss NaN' :
                            ''),
    known(r.test) ? tile('Test accuracy', percent(r.test), weights) : null,
    tile('Training loss', short(r.train_loss), step(logged ?? r.step)),
    tile(
        'Steps', known(r.step) ? `${short(r.step)} / ${short(r.steps)}` : '–',
        why && r.status === 'complete' ? 'ended early' :
            known(epoch)               ? `epoch ${short(epoch)}` :
                                         '',
        make(
            'div', {
              class: 'bar',
              role: 'progressbar',
              'aria-label': 'Progress',
              'aria-valuenow': Math.round(100 * share)
            },
            make('i', {style: `width:${100 * share}%`}))),
    tile(
        'Time', duration(r.seconds),
        running && known(left) ? `about ${duration(left)} left` :
            times.began ? `since ${times.began}` :
                          ''),
    tile('Samples/s', short(r.images_per_s), ranks),
    known(exposed) ?
        tile('Exposed communication', shortPercent(exposed), 'of the step, on average') :
        null,
  ];
  if (why) {
    const what = {complete: 'ended early', stopped: 'was stopped'}[r.status] || 'failed';
    byId('main').append(
        make('p', {class: 'card notice', role: 'alert'}, `The run ${what}: ${why}`));
  }
  byId('main').append(make('div', {class: 'tiles', id: 'tiles'}, tiles.filter(Boolean)));
}

// --- curves

/**
 * One series of each run, or several of one run. parts: [label, kind, column, {style}]. A label of
 * null is the name of the set.
 */
function seriesOf(parts) {
  const result = [];
  data.runs.forEach((run, number) => {
    parts.forEach(([text, kind, name, style = {}], i) => {
      const label = text ?? setOf(run);
      if (comparison && style.single) return;
      const values = columns(run, kind)[name] || [];
      if (!values.some(known) && !(style.marks && values.length > 0)) return;  // marks show NaN too
      const alone = parts.length === 1 || parts[1][3]?.single;
      const own =
          comparison ? lookOf(run, number) : {color: i % 8, dash: DASHES[Math.floor(i / 8) % 4]};
      const dash = DASHES[(DASHES.indexOf(own.dash) + (comparison ? i : 0)) % 4];
      const look = {
        color: own.color,
        dash: comparison ? dash : style.dash ?? dash,
        part: i,
        label: !comparison ? label :
            alone          ? run.label :
                             `${run.label}, ${label}`
      };
      result.push({
        ...style,
        ...look,
        run,
        columns: columns(run, kind),
        means: at(run, 'rows', kind, 'means'),
        name
      });
    });
  });
  return result;
}

function curves() {
  const ms = {factor: 1000, smooth: true}, one = {single: true};
  const classes = (at(data.runs[0], 'summary', 'class_names') || []).length;
  const top5 = classes > 0 && classes <= 5 ?  // it is always 100 %
      [] :
      [[`${setOf(data.runs[0])}, top-5`, 'evaluation', 'top5', {dash: '2 3'}]];
  const specs = [
    {
      id: 'loss',
      title: 'Loss',
      series: seriesOf([
        ['training', 'train', 'loss', {smooth: true}],
        [null, 'evaluation', 'loss', {marks: true, dash: '7 3'}],
        ['test', 'test', 'loss', {marks: 'big', single: true}],
        ['training, mean of epoch', 'epoch', 'loss', {marks: true, single: true}]
      ])
    },
    {
      id: 'accuracy',
      title: 'Accuracy',
      format: shortPercent,
      most: 1,
      series: comparison ? seriesOf([[null, 'evaluation', 'top1', {marks: true}]]) : seriesOf([
        ['training', 'train', 'batch_top1', {smooth: true}],
        [null, 'evaluation', 'top1', {marks: true, dash: '7 3'}],
        ['test', 'test', 'top1', {marks: 'big'}], ...top5
      ])
    },
    {
      id: 'learning_rate',
      title: 'Learning rate',
      from0: true,
      series: seriesOf([['learning rate', 'train', 'learning_rate']])
    },
    {
      id: 'images_per_s',
      title: 'Samples/s',
      from0: true,
      series: seriesOf([['samples/s', 'train', 'images_per_s', {smooth: true}]])
    },
    {
      id: 'exposed_communication',
      title: 'Exposed communication, share of the step',
      format: shortPercent,
      from0: true,
      series: seriesOf([
        ['exposed communication', 'train', 'exposed_communication', {smooth: true}],
        ['waiting for data', 'train', 'loader_wait', {smooth: true, dash: '7 3', ...one}]
      ])
    },
    {
      id: 'step_time',
      title: 'Time of a step, ms',
      from0: true,
      series: seriesOf([['step', 'train', 'seconds_per_batch', ms]])
    },
    {
      id: 'shares',
      title: 'Shards of each rank',
      from0: true,
      optional: true,
      series: seriesOf([0, 1, 2, 3, 4, 5, 6, 7].map(
          (rank) => [`rank ${rank}`, 'shares', `rank_${rank}`, {marks: true}]))
    },
    {
      id: 'penalty',
      title: 'Weight penalty',
      optional: true,
      series: seriesOf([['penalty', 'train', 'penalty', one]])
    },
    ...(comparison ? [] : hostCharts(data.runs[0])),
  ];
  // Measures without a chart of their own that chose the best evaluation of a run.
  const chosen = data.measures.filter(
      ({name}) => !specs.some(({id}) => id === name) &&
          data.runs.some((run) => option(run, 'best') === name));
  specs.splice(2, 0, ...chosen.map(({field, title, lower_is_better}) => ({
    id: field,
    title: title[0].toUpperCase() + title.slice(1),
    ...(lower_is_better ? {} : {format: shortPercent, most: 1}),
    optional: true,
    series: seriesOf([
      [null, 'evaluation', field, {marks: true}],
      ['test', 'test', field, {marks: 'big', single: true}]
    ])
  })));
  const empty = (spec) => spec.series.every(
      (series) => !series.columns[series.name].some((value) => known(value) && value !== 0));
  const drawn = specs.filter((spec) => spec.series.length > 0 && !(spec.optional && empty(spec)));
  const missing = specs.filter((spec) => spec.series.length === 0 && !spec.optional)
                      .map((spec) => spec.title.split(',')[0].toLowerCase());
  const notes = [];
  if (missing.length > 0) notes.push(`Not logged: ${missing.join(', ')}.`);
  for (const run of data.runs) {
    const rows = at(run, 'rows', 'train');
    if (rows && rows.kept < rows.count)
      notes.push(`${run.label}: ${short(rows.kept)} of ${
          short(rows.count)} training rows, with all extremes of loss, speed and communication.`);
  }
  section(
      'curves', 'Curves', groupSwitch(),
      make('div', {class: 'grid'}, drawn.map((spec) => new Chart(spec).element)),
      notes.length > 0 ? reason(notes.join(' ')) : null,
      make(
          'p', {class: 'reason'}, 'Drag to zoom all charts; double-click or ',
          make('kbd', {}, 'Esc'), ' resets. With the focus on a chart, ', make('kbd', {}, '←'), ' ',
          make('kbd', {}, '→'), ' move the cursor.'));
}

// --- classes

function matrix(names, confusion) {
  const sums = confusion.map((row) => row.reduce((a, b) => a + b, 0)), small = names.length > 24;
  const detail = make(
      'p', {class: 'reason', 'aria-live': 'polite'},
      'Rows are true classes, columns predictions. Blue is right, orange is wrong. The shade is the square root of the share of the row.');
  const tell = (i, j) => {
    detail.textContent = `${names[i]} taken for ${names[j]}: ${short(confusion[i][j])} of ${
        short(sums[i])} (${percent(confusion[i][j] / sums[i])})`;
  };
  const cell = (i, j) => {
    const share = sums[i] > 0 ? confusion[i][j] / sums[i] : 0,
          shade = Math.round(100 * Math.sqrt(share));
    const color = `color-mix(in srgb, var(--c${i === j ? 0 : 1}) ${shade}%, var(--surface))`;
    return make(
        'td', {
          style: `background:${color};color:${shade > 75 ? 'var(--surface)' : 'inherit'}`,
          tabindex: i + j === 0 ? 0 : -1,
          'data-cell': `${i},${j}`,
          title: `${names[i]} taken for ${names[j]}`,
          onpointerenter: () => tell(i, j),
          onfocus: () => tell(i, j)
        },
        confusion[i][j] > 0 || i === j ? String(confusion[i][j]) : '');
  };
  const grid = make(
      'table', {
        class: small ? 'matrix small' : 'matrix',
        onkeydown: (event) => {
          const [dy, dx] = {
            ArrowUp: [-1, 0],
            ArrowDown: [1, 0],
            ArrowLeft: [0, -1],
            ArrowRight: [0, 1]
          }[event.key] ||
              [0, 0];
          const [i, j] = (event.target.dataset.cell || '0,0').split(',').map(Number),
                    next = grid.querySelector(`[data-cell="${i + dy},${j + dx}"]`);
          if (dx + dy === 0 || !next) return;
          event.preventDefault();
          event.target.tabIndex = -1;
          next.tabIndex = 0;
          next.focus();
        }
      },
      make(
          'thead', {},
          make(
              'tr', {}, make('td', {}),
              names.map(
                  (name) => make(
                      'th', {scope: 'col', title: name}, small ? '' : make('span', {}, name))))),
      make(
          'tbody', {},
          names.map(
              (name, i) => make(
                  'tr', {}, make('th', {scope: 'row', title: name}, name),
                  names.map((_, j) => cell(i, j))))));
  return make('div', {class: 'card scroll'}, make('h3', {}, 'Confusion matrix'), grid, detail);
}

function classes() {
  const found = data.runs[0].evaluation;
  if (!found) {
    section(
        'classes', 'Classes',
        reason(
            'This run kept no evaluation of its classes: it had none yet, or an earlier version trained it. The program evaluate prints them for a checkpoint.'));
    return;
  }
  const names = found.classes, measures = found.measures || {},
        measured = data.measures.filter(({field}) => field in measures)
                       .map(({title, field}) => `${title} ${known(measures[field]) ? measures[field].toFixed(4) : '–'}`),
        rows = found.per_class.map(
            ([samples, predicted, right], i) =>
                [names[i], percent(right / predicted), percent(right / samples),
                 percent(2 * right / (samples + predicted)), short(samples), short(predicted)]);
  const heads = [
    ['class', false], ['precision', true], ['recall', true], ['F1', true], ['samples', true],
    ['predicted', true]
  ];
  const pairs = found.pairs.map(
      ([truth, predicted, count]) => [names[truth], names[predicted], short(count)]);
  const left = found.confusion ?
      matrix(names, found.confusion) :
      make(
          'div', {class: 'card'}, make('h3', {}, 'Most frequent confusions'),
          reason(`${short(names.length)} classes are too many for a matrix.`),
          make(
              'div', {class: 'scroller'},
              table(
                  [['true class', false], ['predicted', false], ['samples', true]], pairs,
                  {sorts: true})));
  section(
      'classes', 'Classes',
      make(
          'p', {class: 'reason'},
          `${found.set}, ${found.about}, step ${short(found.step)}.` +
              (/^(best|last) /.test(found.about) ||
                       [found.step, undefined, null].includes(data.runs[0].results.best_step) ?
                   '' :
                   ' This is not the best evaluation; the program evaluate shows that.') +
              (measured.length > 0 ? ` Measures: ${measured.join(', ')}.` : '')),
      make(
          'div', {class: 'columns'}, left,
          make(
              'div', {class: 'card'}, make('h3', {}, 'Per class'),
              make('div', {class: 'scroller'}, table(heads, rows, {sorts: true})))));
}

function mistakes() {
  const found = data.runs[0].evaluation, worst = at(found, 'mistakes') || [];
  if (!found) return;
  if (worst.length === 0)
    return section('mistakes', 'Worst mistakes', reason('The evaluation had no mistakes.'));
  const figure = (m) => make(
      'figure', {class: 'card'},
      m.image ?
          make(
              'img',
              {src: m.image, alt: `sample ${m.sample}`, class: m.size > 48 ? 'smooth' : null}) :
          null,
      m.text ? make('p', {class: 'text'}, m.text) : null,
      make(
          'figcaption', {}, make('b', {}, found.classes[m.predicted]), make('br'),
          `${(100 * m.probability).toFixed(0)} % sure, is ${found.classes[m.label]}`, make('br'),
          make('span', {class: 'reason', title: `sample ${m.sample}`}, `loss ${short(m.loss)}`),
          m.file ? make('span', {class: 'file', title: m.file}, m.file.split('/').pop()) : null));
  const note = worst.some((m) => m.image || m.text) ?
      [] :
      [reason('These samples are neither images nor texts.')];
  section(
      'mistakes', 'Worst mistakes',
      make(
          'p', {class: 'reason'},
          'The samples with the highest loss: the prediction, its probability, and the true class.'),
      ...note, make('div', {class: 'mistakes'}, worst.map(figure)));
}
