// Charts of what each host of a run uses.
'use strict';

/** The names of the hosts in the order of their first ranks; numbers if two hosts have one name. */
function hostNames(run, count) {
  const places = [at(run, 'summary', 'placement')].flat().map((text) => /host ([^,]*)/.exec(text)),
        names = [...new Set(places.map((place) => place?.[1] ?? 'host'))];
  return names.length === count ? names : Array.from({length: count}, (_, i) => `host ${i}`);
}

/** The specifications of these charts, as Chart takes them; none without rows of kind "host". */
function hostCharts(run) {
  const found = Object.keys(columns(run, 'host')).filter((name) => name.startsWith('cores_'));
  const names = hostNames(run, found.length);
  /** kinds: [text after the name of the host, column, factor, dash] */
  const chart = (id, title, ...kinds) => {
    const parts = names.flatMap(
        (name, i) => kinds.map(
            ([text, column, factor,
              dash]) => [name + text, 'host', `${column}_${i}`, {factor, dash, single: true}]));
    return {id, title, from0: true, optional: true, series: seriesOf(parts)};
  };
  return [
    chart('cores', 'Busy cores of each host, by this run', ['', 'cores', 1]),
    chart('bytes', 'Memory of this run on each host, GiB', ['', 'bytes', 2 ** -30]),
    chart(
        'network', 'Network of each host, MiB/s', [', received', 'received_per_s', 2 ** -20],
        [', sent', 'sent_per_s', 2 ** -20, '7 3'])
  ];
}
