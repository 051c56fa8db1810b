/** A metric as docs/metrics.md describes it. */
export interface DocumentedMetric {
  readonly section: string
  readonly name: string
  readonly type: string
  readonly labels: readonly string[]
  readonly meaning: string
}

/** The rows of docs/metrics.md, which a test compares with the code. */
export function documentedMetrics(page: string): readonly DocumentedMetric[] {
  return page.split(/^## /m).flatMap((part) => {
    const [section = ''] = part.split('\n', 1)
    const rows = part.matchAll(/^\| `(\w+)` \| (\w+) \| (.+?) \| (.+) \|$/gm)
    return [...rows].map(([, name = '', type = '', labels = '', meaning = '']) => ({
      section,
      name,
      type,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label),
      meaning,
    }))
  })
}

const COLUMNS = 3
const PANEL = { w: 24 / COLUMNS, h: 7 }
const datasource = { type: 'prometheus', uid: '$datasource' }
const scope = 'job=~"$job",instance=~"$instance"'

/** A Grafana dashboard as JSON, one panel a line: a panel for each metric, below a row for each section of the page. */
export function dashboardText(metrics: readonly DocumentedMetric[]): string {
  const panels: unknown[] = []
  let y = 0
  for (const [section, all = []] of Map.groupBy(metrics, (metric) => metric.section)) {
    panels.push({ id: panels.length + 1, type: 'row', title: section, gridPos: { x: 0, y, w: 24, h: 1 } })
    for (const [index, metric] of all.entries()) {
      const place = { x: (index % COLUMNS) * PANEL.w, y: y + 1 + Math.floor(index / COLUMNS) * PANEL.h }
      panels.push({ id: panels.length + 1, ...panelOf(metric), gridPos: { ...place, ...PANEL } })
    }
    y += 1 + Math.ceil(all.length / COLUMNS) * PANEL.h
  }
  const variable = (name: string, query: string) => ({
    name,
    type: 'query',
    datasource,
    query: { query, refId: name },
    multi: true,
    includeAll: true,
    refresh: 2,
  })
  const head = {
    title: 'apiserver-bootstrap',
    uid: 'apiserver-bootstrap',
    schemaVersion: 41,
    editable: true,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus' },
        variable('job', 'label_values(apiserver_bootstrap_api_available, job)'),
        variable('instance', 'label_values(apiserver_bootstrap_api_available{job=~"$job"}, instance)'),
      ],
    },
  }
  const lines = panels.map((panel) => JSON.stringify(panel))
  return `${JSON.stringify(head).slice(0, -1)},"panels":[\n${lines.join(',\n')}\n]}\n`
}

function panelOf({ name, type, labels, meaning }: DocumentedMetric): object {
  const rate = (series: string, by: readonly string[]): string =>
    `sum by (${by.join(', ')}) (rate(${series}{${scope}}[$__rate_interval]))`
  const isTimestamp = name.endsWith('_timestamp_seconds') || name.endsWith('_start_time_seconds')
  const [title, expr] =
    type === 'counter'
      ? [`${name}, per second`, rate(name, ['instance', ...labels])]
      : type === 'histogram'
        ? [`${name}, 99%`, `histogram_quantile(0.99, ${rate(`${name}_bucket`, ['le', 'instance', ...labels])})`]
        : isTimestamp
          ? [`${name}, from now`, `${name}{${scope}} - time()`]
          : [name, `${name}{${scope}}`]
  const unit =
    type === 'counter' ? 'short' : /_seconds$|_duration$/.test(name) ? 's' : name.endsWith('_bytes') ? 'bytes' : 'short'
  return {
    type: 'timeseries',
    title,
    description: meaning,
    datasource,
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets: [{ refId: 'A', expr, legendFormat: ['instance', ...labels].map((label) => `{{${label}}}`).join(' ') }],
  }
}
