// Precision-recall curves of the classes.

/** The points [recall, precision] of a curve of [right, wrong], from high to low probability. */
function precisionRecall(curve) {
  const all = curve[curve.length - 1][0];
  const points = curve.filter(([right, wrong]) => right + wrong > 0)
                     .map(([right, wrong]) => [right / all, right / (right + wrong)]);
  return all > 0 && points.length > 0 ? [[0, points[0][1]], ...points] : [];
}

/** The mean precision over the recall: the sum of each step of the recall times its precision. */
function averagePrecision(points) {
  return points.slice(1).reduce((sum, [x, y], i) => sum + (x - points[i][0]) * y, 0);
}

function curveChart(shown) {
  const box = {left: 44, right: 424, top: 10, bottom: 270};
  const x = (value) => box.left + value * (box.right - box.left),
        y = (value) => box.bottom - value * (box.bottom - box.top);
  const svg = make('svg', {
    viewBox: '0 0 440 310',
    role: 'img',
    style: 'height:310px',
    'aria-label': 'Precision over recall. ' +
        shown.map(({name, area}) => `${name}: average precision ${area.toFixed(3)}.`).join(' ')
  });
  for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    svg.append(
        make('line', {class: 'gridline', x1: box.left, x2: box.right, y1: y(value), y2: y(value)}),
        make('text', {x: box.left - 6, y: y(value) + 4, 'text-anchor': 'end'}, String(value)),
        make('text', {x: x(value), y: box.bottom + 16, 'text-anchor': 'middle'}, String(value)));
  }
  const middle = (box.top + box.bottom) / 2;
  svg.append(
      make('text', {x: x(0.5), y: box.bottom + 34, 'text-anchor': 'middle'}, 'recall'),
      make(
          'text',
          {x: 10, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 10 ${middle})`},
          'precision'));
  shown.forEach(({points}, color) => {
    const path = points.map(([a, b], i) => `${i ? 'L' : 'M'}${x(a).toFixed(1)} ${y(b).toFixed(1)}`);
    svg.append(make('path', {
      class: 'line',
      d: path.join(''),
      fill: 'none',
      stroke: `var(--c${color})`,
      'stroke-width': 1.8,
      'stroke-linejoin': 'round'
    }));
  });
  return svg;
}

function precisionRecallCurves() {
  const found = data.runs[0].evaluation, most = 8;
  if (!at(found, 'curves')) return;
  const all =
      found.curves.map((curve, i) => ({name: found.classes[i], points: precisionRecall(curve)}))
          .filter(({points}) => points.length > 0)
          .map((one) => ({...one, area: averagePrecision(one.points)}))
          .sort((a, b) => a.area - b.area);
  const shown = all.slice(0, most);
  const legend = shown.map(
      ({name, area}, color) => make(
          'span', {}, make('i', {class: 'dot', style: `background:var(--c${color})`}), name,
          make('b', {}, area.toFixed(3))));
  section(
      'precision-recall', 'Precision and recall',
      make(
          'p', {class: 'reason'},
          'Each point is a threshold of the probability of the class. The number is the average precision.',
          all.length > most ? ` The ${most} lowest of ${all.length} classes are shown.` : ''),
      make(
          'div', {class: 'grid'},
          make(
              'div', {class: 'card chart'}, curveChart(shown),
              make('div', {class: 'legend'}, legend))));
}
