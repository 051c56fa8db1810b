import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { documentedMetrics } from '../../scripts/dashboard.ts'

const metrics = new Map(
  documentedMetrics(readFileSync('docs/metrics.md', 'utf8')).map((metric) => [metric.name, metric]),
)
const { groups } = parse(readFileSync('config/monitoring/alerts.yaml', 'utf8')).spec as {
  groups: {
    rules: { alert: string; expr: string; labels: { severity: string }; annotations: Record<string, string> }[]
  }[]
}
const rules = groups.flatMap((group) => group.rules)
/** The scraper adds these to every series. */
const ofTheScraper = ['job', 'namespace', 'instance']

/** The words of an expression that are not a text, number or function. */
function wordsOf(expr: string): readonly string[] {
  const words = expr.replaceAll(/"[^"]*"/g, '').match(/\b[a-z][a-z_]*\b(?!\s*\()/g) ?? []
  return [...new Set(words)].filter((word) => !['sum', 'max', 'by', 'on', 'and', 'or', 'unless'].includes(word))
}

/** The words of an expression that are neither a metric of the program nor a label of a metric in the expression. */
function unknownWords(expr: string): readonly string[] {
  const words = wordsOf(expr).map((word) => word.replace(/_bucket$/, ''))
  const labels = words.flatMap((word) => metrics.get(word)?.labels ?? [])
  return words.filter((word) => !metrics.has(word) && ![...labels, ...ofTheScraper, 'le'].includes(word))
}

const withoutTexts = (expr: string): string => expr.replaceAll(/"[^"]*"/g, '""')

/** The labels of a series of the metric. */
function labelsOf(metric: string): readonly string[] {
  const { labels } = metrics.get(metric.replace(/_bucket$/, '')) ?? { labels: [] }
  return [...labels, ...ofTheScraper, ...(metric.endsWith('_bucket') ? ['le'] : [])]
}

interface Aggregation {
  readonly by: readonly string[]
  readonly of: readonly string[]
}

/** The aggregations of an expression, each with the metrics that it aggregates, and the expression without them. */
function aggregationsIn(expr: string): { readonly aggregations: readonly Aggregation[]; readonly rest: string } {
  const aggregations: Aggregation[] = []
  let rest = withoutTexts(expr)
  for (;;) {
    const found = /\w+ by \(([^)]*)\) \(/.exec(rest)
    if (found === null) return { aggregations, rest }
    const [head, by = ''] = found
    const start = found.index + head.length
    let [end, open] = [start, 1]
    for (; open > 0; end++) open += { '(': 1, ')': -1 }[rest.charAt(end)] ?? 0
    const of = wordsOf(rest.slice(start, end)).filter((word) => metrics.has(word.replace(/_bucket$/, '')))
    aggregations.push({ by: by.split(', '), of })
    rest = rest.slice(0, found.index) + rest.slice(end)
  }
}

/** The labels that an expression matches or aggregates by, but that a metric beside them does not have. */
function misplacedLabels(expr: string): readonly string[] {
  const matched = [...withoutTexts(expr).matchAll(/(\w+)\{([^}]*)\}/g)].map(([, metric = '', matchers = '']) => ({
    by: [...matchers.matchAll(/\w+/g)].map(([label]) => label),
    of: [metric],
  }))
  return [...matched, ...aggregationsIn(expr).aggregations].flatMap(({ by, of }) =>
    of.flatMap((metric) =>
      by.filter((label) => !labelsOf(metric).includes(label)).map((label) => `${metric} ${label}`),
    ),
  )
}

/** The labels that the results of an expression have. */
function resultingLabels(expr: string): readonly string[] {
  const { aggregations, rest } = aggregationsIn(expr)
  // The right side of `and` only filters.
  const left = rest.replaceAll(/\band on \([^)]*\) \w+/g, '')
  return [
    ...aggregations.flatMap(({ by }) => by),
    ...wordsOf(left)
      .filter((word) => metrics.has(word))
      .flatMap(labelsOf),
  ]
}

test('each alert names only metrics and labels that exist, and has a severity', () => {
  assert.ok(rules.length >= 7)
  for (const { alert, expr, labels } of rules) {
    assert.ok(
      wordsOf(expr).some((word) => metrics.has(word)),
      alert,
    )
    assert.deepEqual(unknownWords(expr), [], alert)
    assert.deepEqual(misplacedLabels(expr), [], alert)
    assert.match(labels.severity, /^(?:warning|critical)$/, alert)
  }
  assert.deepEqual(unknownWords('max by (duty) (apiserver_bootstrap_masters{state="ready"}) > 0'), ['duty'])
  assert.deepEqual(unknownWords('rate(apiserver_bootstrap_gone_total[5m]) > 0'), ['apiserver_bootstrap_gone_total'])
})

test('the annotations of an alert use only labels that the results of its expression have', () => {
  for (const { alert, expr, annotations } of rules) {
    const used = Object.values(annotations).flatMap((text) =>
      [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label),
    )
    const left = resultingLabels(expr)
    for (const label of used) assert.ok(left.includes(label ?? ''), `${alert}: ${label}`)
  }
})

test('each alert has a runbook section with Meaning, Check and Do, and each section has an alert', () => {
  const [, ...sections] = readFileSync('docs/alerts.md', 'utf8').split(/^## /m)
  assert.deepEqual(
    sections.map((section) => section.split('\n', 1)[0]),
    rules.map(({ alert }) => alert),
  )
  for (const section of sections) {
    const parts = [...section.matchAll(/^\*\*(\w+)\.?\*\*/gm)].map(([, part]) => part)
    assert.deepEqual(parts, ['Meaning', 'Check', 'Do'], section)
  }
  for (const { alert, annotations } of rules) {
    assert.equal(annotations.runbook, `docs/alerts.md#${alert.toLowerCase()}`)
    assert.ok(annotations.summary && annotations.description, alert)
  }
})

test('the dashboard shows every metric once and uses only metrics and labels that exist', () => {
  const { panels } = JSON.parse(readFileSync('config/monitoring/dashboard.json', 'utf8')) as {
    panels: { id: number; type: string; targets?: { expr: string }[] }[]
  }
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length)
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr.replaceAll(/\$\w+/g, '')))
  for (const expr of expressions) assert.deepEqual([unknownWords(expr), misplacedLabels(expr)], [[], []], expr)
  const shown = expressions.flatMap((expr) => wordsOf(expr).map((word) => word.replace(/_bucket$/, '')))
  assert.deepEqual(shown.filter((word) => metrics.has(word)).sort(), [...metrics.keys()].sort())
})

test("the ServiceMonitor and the NetworkPolicy select the sidecars' Pods and their health port", () => {
  const read = (path: string) =>
    parseAllDocuments(readFileSync(`config/${path}`, 'utf8')).map((document) => document.toJS())
  const { template } = read('kustomize/in-a-pod/deployment.yaml').find(({ kind }) => kind === 'Deployment').spec
  const ports = template.spec.initContainers.flatMap((container: { ports: object[] }) => container.ports)
  const [monitor, service] = read('monitoring/servicemonitor.yaml')
  const [policy] = read('monitoring/networkpolicy.yaml')
  assert.deepEqual(monitor.spec.selector.matchLabels, service.metadata.labels)
  assert.deepEqual(service.spec.selector, template.metadata.labels)
  assert.deepEqual(policy.spec.podSelector.matchLabels, template.metadata.labels)
  const [{ port, name, targetPort }] = service.spec.ports
  // Kubernetes before 1.32 does not resolve the name of a native sidecar's port.
  assert.ok(ports.some(({ containerPort }: { containerPort: number }) => containerPort === targetPort))
  assert.equal(port, targetPort)
  assert.equal(monitor.spec.endpoints[0].port, name)
  assert.deepEqual(policy.spec.ingress[0].ports, [{ port: targetPort }])
})
