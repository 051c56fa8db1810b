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

test('each alert names only metrics and labels that exist, and has a severity', () => {
  assert.ok(rules.length >= 7)
  for (const { alert, expr, labels } of rules) {
    assert.ok(
      wordsOf(expr).some((word) => metrics.has(word)),
      alert,
    )
    assert.deepEqual(unknownWords(expr), [], alert)
    assert.match(labels.severity, /^(?:warning|critical)$/, alert)
  }
  assert.deepEqual(unknownWords('max by (duty) (apiserver_bootstrap_masters{state="ready"}) > 0'), ['duty'])
  assert.deepEqual(unknownWords('rate(apiserver_bootstrap_gone_total[5m]) > 0'), ['apiserver_bootstrap_gone_total'])
})

test('the annotations of an alert use only labels of the metrics in its expression or of the scraper', () => {
  for (const { alert, expr, annotations } of rules) {
    const used = Object.values(annotations).flatMap((text) =>
      [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label),
    )
    const left = [...ofTheScraper, ...wordsOf(expr).flatMap((word) => [word, ...(metrics.get(word)?.labels ?? [])])]
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
  for (const expr of expressions) assert.deepEqual(unknownWords(expr), [], expr)
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
